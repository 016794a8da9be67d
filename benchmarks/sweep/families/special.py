"""Special functions, and the densities of distributions."""

from functools import partial

from jax.scipy import special, stats

from benchmarks.sweep.case import Family, array, positive

SPECIAL = Family("special")

_COUNT = 20_000
_BELOW_ONE = array(_COUNT, low=0.1, high=0.9)

_OF_ONE = ("gammaln", "entr", "exp1", "expi", "spence", "digamma")
_OF_TWO = ("betaln", "gammainc", "gammaincc", "rel_entr", "kl_div", "poch", "xlogy")
_DISTRIBUTIONS = {
    "norm": (),
    "beta": (2.0, 3.0),
    "gamma": (2.0,),
    "t": (3.0,),
    "cauchy": (),
    "laplace": (),
    "expon": (),
    "logistic": (),
    "chi2": (3.0,),
    "pareto": (2.0,),
    "uniform": (),
}

for names, count in ((_OF_ONE, 1), (_OF_TWO, 2)):
    for name in names:
        SPECIAL.add(name, getattr(special, name), *[positive(_COUNT)] * count)
SPECIAL.add("betainc", special.betainc, positive(_COUNT), positive(_COUNT), _BELOW_ONE)
SPECIAL.add("zeta", special.zeta, array(_COUNT, low=1.5, high=5.0), positive(_COUNT))
SPECIAL.add("polygamma", partial(special.polygamma, 2), positive(_COUNT))

for name, parameters in _DISTRIBUTIONS.items():
    for kind in ("pdf", "logpdf", "cdf"):
        density = getattr(getattr(stats, name), kind, None)
        if density:
            SPECIAL.add(f"{name}-{kind}", lambda x, f=density, p=parameters: f(x, *p), _BELOW_ONE)
