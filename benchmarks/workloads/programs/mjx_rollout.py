"""Rollouts by MuJoCo's MJX: 32 pendulums on carts with a ball that falls on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

TOLERANCE = 0.05
"""Contacts are chaotic."""

_MODEL = """
<mujoco>
  <option timestep="0.005" iterations="4" ls_iterations="4"/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .3">
      <joint name="slide" type="slide" axis="1 0 0" damping=".1"/>
      <geom type="box" size=".2 .1 .1" mass="1"/>
      <body pos="0 0 .1">
        <joint type="hinge" axis="0 1 0" damping=".01"/>
        <geom type="capsule" fromto="0 0 0 0 0 .6" size=".04" mass=".2"/>
      </body>
    </body>
    <body pos=".1 0 1.2"><freejoint/><geom type="sphere" size=".08" mass=".1"/></body>
  </worldbody>
  <actuator><motor joint="slide" gear="10"/></actuator>
</mujoco>
"""


def prepare() -> Callable[[], Any]:
    """A hundred steps, with a control of its own for each."""
    import mujoco
    from mujoco import mjx

    model = mjx.put_model(mujoco.MjModel.from_xml_string(_MODEL))
    first = mjx.make_data(model)
    controls = jax.random.uniform(jax.random.key(0), (32, 100, 1), minval=-1, maxval=1)

    @jax.jit
    @jax.vmap
    def rollout(controls: Any) -> Any:
        def step(data: Any, control: Any) -> Any:
            data = mjx.step(model, data.replace(ctrl=control))
            return data, data.qpos[:2]

        return jax.lax.scan(step, first, controls)[1]

    return lambda: jnp.mean(rollout(controls), 0)[:50]
