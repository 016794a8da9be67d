"""A driver without a GPU does what the real one's manual says, and finds who does not wait."""

import ctypes

import numpy as np
import pytest

from tests.cuda.simulation import simulated_gpus
from xloom.cuda.driver import results
from xloom.cuda.driver.entry_points import CONDITIONAL_NODES, ENTRY_POINTS, HOST_FUNCTION, NON_BLOCKING, prototype
from xloom.cuda.driver.results import DriverError, name_of
from xloom.cuda.simulated_driver.driver import simulated_driver

BYTES = 64


def fresh(seed=0, **options):
    """A driver with a current context, and two streams."""
    driver, machine = simulated_driver(seed=seed, **options)
    driver.call("cuCtxPushCurrent_v2", driver.made("cuDevicePrimaryCtxRetain", 0))
    streams = [driver.made("cuStreamCreate", NON_BLOCKING) for _ in range(2)]
    return driver, machine, streams


def allocated(driver, stream, nbytes=BYTES):
    return driver.made("cuMemAllocAsync", nbytes, stream, kind=ctypes.c_uint64)


def test_every_entry_point_is_filled():
    driver, _ = simulated_driver()
    assert driver.functions.keys() == {*ENTRY_POINTS, *CONDITIONAL_NODES}
    for name, function in driver.functions.items():
        assert type(function) is prototype(name)


def test_a_stream_does_its_work_in_order_and_not_before_somebody_waits():
    driver, _, (stream, _) = fresh()
    x, y = np.arange(BYTES, dtype=np.uint8), np.zeros(BYTES, np.uint8)
    memory = allocated(driver, stream)
    driver.call("cuMemcpyHtoDAsync_v2", memory, x.ctypes.data, BYTES, stream)
    x[...] = 0  # it was read already: it is not pinned
    driver.call("cuMemcpyDtoHAsync_v2", y.ctypes.data, memory, BYTES, stream)
    assert not y.any()
    driver.call("cuStreamSynchronize", stream)
    assert np.array_equal(y, np.arange(BYTES))


@pytest.mark.parametrize("waits", [True, False])
def test_a_stream_that_does_not_wait_for_another_is_found_by_some_order(waits):
    failed = 0
    for seed in range(8):
        driver, _, (first, second) = fresh(seed)
        memory, event = allocated(driver, first), driver.made("cuEventCreate", 0)
        driver.call("cuEventRecord", event, first)
        if waits:
            driver.call("cuStreamWaitEvent", second, event, 0)
        y = np.zeros(BYTES, np.uint8)
        driver.call("cuMemcpyDtoHAsync_v2", y.ctypes.data, memory, BYTES, second)
        try:
            driver.call("cuStreamSynchronize", second)
        except DriverError as error:
            assert error.result == results.ILLEGAL_ADDRESS
            failed += 1
    assert not failed if waits else failed


def test_what_is_freed_is_no_memory_any_more_and_errors_stay():
    driver, _, (stream, _) = fresh()
    memory, y = allocated(driver, stream), np.zeros(BYTES, np.uint8)
    driver.call("cuMemFreeAsync", memory, stream)
    driver.call("cuMemcpyDtoHAsync_v2", y.ctypes.data, memory, BYTES, stream)
    with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        driver.call("cuStreamSynchronize", stream)
    with pytest.raises(DriverError, match=r"cuMemAllocAsync: CUDA_ERROR_ILLEGAL_ADDRESS[\s\S]*context is lost"):
        allocated(driver, stream)


def test_events_are_not_ready_before_their_work():
    driver, _, (stream, _) = fresh()
    event = driver.made("cuEventCreate", 0)
    assert driver.functions["cuEventQuery"](event) == results.SUCCESS  # never recorded
    for _ in range(5):
        allocated(driver, stream)
    driver.call("cuEventRecord", event, stream)
    said = [driver.functions["cuEventQuery"](event) for _ in range(8)]
    assert said[0] == results.NOT_READY and said[-1] == results.SUCCESS


def test_functions_of_the_host_may_not_call_the_driver():
    driver, _, (stream, _) = fresh()
    said = []
    function = HOST_FUNCTION(lambda data: said.append((data, driver.functions["cuCtxSynchronize"]())))
    driver.call("cuLaunchHostFunc", stream, ctypes.cast(function, ctypes.c_void_p).value, 7)
    driver.call("cuStreamSynchronize", stream)
    assert said == [(7, results.NOT_PERMITTED)]


def test_graphs_do_their_work_each_time():
    driver, _, (stream, _) = fresh()
    source, target = allocated(driver, stream), allocated(driver, stream)
    x, y = np.arange(BYTES, dtype=np.uint8), np.zeros(BYTES, np.uint8)
    driver.call("cuStreamBeginCapture_v2", stream, 1)
    driver.call("cuMemcpyDtoDAsync_v2", target, source, BYTES, stream)
    with pytest.raises(DriverError, match="STREAM_CAPTURE_UNSUPPORTED"):
        driver.call("cuStreamSynchronize", stream)
    launched = driver.made("cuGraphInstantiateWithFlags", driver.written("cuStreamEndCapture", stream), 0)
    for k in range(2):
        driver.call("cuMemcpyHtoDAsync_v2", source, (x + k).ctypes.data, BYTES, stream)
        driver.call("cuGraphLaunch", launched, stream)
        driver.call("cuMemcpyDtoHAsync_v2", y.ctypes.data, target, BYTES, stream)
        driver.call("cuStreamSynchronize", stream)
        assert np.array_equal(y, x + k)


def test_images_that_it_was_not_taught_are_of_another_gpu():
    driver, _, _ = fresh()
    image = ctypes.create_string_buffer(b".version 8.0")
    with pytest.raises(DriverError, match=r"NO_BINARY_FOR_GPU"):
        driver.made("cuModuleLoadDataEx", ctypes.addressof(image), 0, None, None)


def test_calls_need_a_context_and_handles_that_there_are():
    driver, _ = simulated_driver()
    assert driver.functions["cuCtxSynchronize"]() == results.INVALID_CONTEXT
    driver.call("cuCtxPushCurrent_v2", driver.made("cuDevicePrimaryCtxRetain", 0))
    assert driver.functions["cuStreamSynchronize"](1) == results.INVALID_HANDLE
    assert name_of(results.INVALID_HANDLE) == "CUDA_ERROR_INVALID_HANDLE"
    assert name_of(4711) == "CUresult 4711"


def test_devices_say_what_they_are():
    (gpu, _), _ = simulated_gpus(2, "sm_90")
    assert gpu.target.name == "sm_90a" and gpu.multiprocessors == 8
    assert gpu.driver.version == (12, 9)
