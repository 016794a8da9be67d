"""Clients on a simulated driver: all of the run time but libcuda."""

from xloom.cuda.run_time.device import CudaDevice, devices_of
from xloom.cuda.run_time.images import image_of
from xloom.cuda.simulated_driver.driver import simulated_driver
from xloom.pjrt import Client
from xloom.pjrt.cuda import CudaCompiler


def simulated_gpus(devices=1, target="sm_80", **options):
    """GPUs, and the machine behind them."""
    driver, machine = simulated_driver(devices, target, **options)

    def taught(kernel, target):
        image = image_of(kernel, target)
        machine.teach(image, kernel)
        return image

    return devices_of(driver, taught), machine


def gpu_of(client: Client, number: int = 0) -> CudaDevice:
    """A GPU of a client."""
    assert isinstance(client.compiler, CudaCompiler)
    return client.compiler.gpus[number]


def simulated_client(devices=1, target="sm_80", **options):
    """A client of such GPUs, and the machine behind them."""
    gpus, machine = simulated_gpus(devices, target, **options)
    return Client(CudaCompiler(gpus), devices), machine
