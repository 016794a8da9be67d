"""Threads with different wishes for one setting of the process."""

from concurrent.futures import ThreadPoolExecutor

from xloom.llvm.shared_setting import SharedSetting


def test_each_thread_has_its_value_until_it_is_out():
    now = ["none"]

    def begin(value: str):
        now[0] = value
        return lambda: now.__setitem__(0, "none")

    setting = SharedSetting(begin)

    def use(number: int) -> bool:
        value = str(number % 3)
        with setting.of(value):
            return all(now[0] == value for _ in range(500))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(200)))
    assert now == ["none"]
