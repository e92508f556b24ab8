"""The cache of decoded files: within its budget whatever comes, the least recently used goes, nothing is ever wrong."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.lake.iceberg.catalogs.open_tables import FileCache

PATIENCE_S = 60


class Files:
    """Files by path, each of a size; ``loaded`` tells which were opened, in order."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes
        self.loaded: list[str] = []

    def get(self, cache: FileCache, path: str) -> str:
        """The file's content, through the cache."""

        def load() -> str:
            self.loaded.append(path)
            return f"content of {path}"

        return cache.get(path, load, lambda _: self.sizes[path])


class TestBudget:
    @given(
        budget=st.integers(0, 20),
        looks=st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=60),
        sizes=st.lists(st.integers(0, 25), min_size=8, max_size=8),
    )
    def test_it_is_a_dictionary_that_forgets_the_least_recently_used(
        self, budget: int, looks: list[tuple[int, bool]], sizes: list[int]
    ) -> None:
        """Any look-ups and puts: never above its budget, what it holds and what it opens are as a plain model's."""
        cache, files = FileCache(budget), Files(**{f"f{n}": size for n, size in enumerate(sizes)})
        held: OrderedDict[str, int] = OrderedDict()
        opened: list[str] = []
        hits = 0
        for number, put in looks:
            path, size = f"f{number}", sizes[number]
            if put:
                cache.put(path, f"content of {path}", size)
            else:
                assert files.get(cache, path) == f"content of {path}"
                hits += path in held
                opened += [] if path in held else [path]
            if path in held:
                held.move_to_end(path)
            elif size <= budget:
                while sum(held.values()) + size > budget:
                    held.popitem(last=False)
                held[path] = size
            assert cache.size_bytes == sum(held.values()) <= budget
        assert files.loaded == opened
        assert (cache.hits, cache.misses) == (hits, len(opened))

    def test_a_look_up_counts_as_use(self) -> None:
        """Of three files two fit: the one that was looked up last stays."""
        cache, files = FileCache(2), Files(a=1, b=1, c=1)
        for path in ("a", "b", "a", "c", "a", "b"):
            files.get(cache, path)
        assert files.loaded == ["a", "b", "c", "b"]
        assert (cache.hits, cache.misses) == (2, 4)

    def test_a_value_over_the_budget_is_given_and_not_kept(self) -> None:
        """It pushes nothing out; one of exactly the budget is kept."""
        cache, files = FileCache(10), Files(small=1, large=11, fits=10)
        for path in ("small", "large", "large", "small"):
            assert files.get(cache, path) == f"content of {path}"
        assert files.loaded == ["small", "large", "large"]
        assert cache.size_bytes == 1
        assert [files.get(cache, "fits") for _ in range(2)] == ["content of fits"] * 2
        assert files.loaded == ["small", "large", "large", "fits"]
        assert cache.size_bytes == 10

    @pytest.mark.parametrize("value", [None, 0, "", ()])
    def test_an_empty_value_is_a_value(self, value: object) -> None:
        """It is loaded once, like any other."""
        cache = FileCache(10)
        loads = iter([value, "loaded again"])
        assert [cache.get("a", lambda: next(loads), lambda _: 1) for _ in range(2)] == [value, value]


class TestLoading:
    def test_a_load_that_fails_leaves_nothing(self) -> None:
        """The error is the loader's, it counts as a miss, and the next look-up loads again."""
        cache, files = FileCache(10), Files(a=1)

        def fail() -> str:
            raise FileNotFoundError("a")

        with pytest.raises(FileNotFoundError):
            cache.get("a", fail, len)
        assert cache.size_bytes == 0
        assert files.get(cache, "a") == "content of a"
        assert (cache.hits, cache.misses) == (0, 2)

    def test_a_slow_load_holds_nobody_up(self) -> None:
        """While one file is being opened, others are found and loaded; even the same one, which is loaded twice."""
        cache, files = FileCache(10), Files(slow=1, other=1)
        begun, go_on = threading.Event(), threading.Event()

        def load() -> str:
            begun.set()
            assert go_on.wait(PATIENCE_S)
            return "content of slow"

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(cache.get, "slow", load, lambda _: 1)
            assert begun.wait(PATIENCE_S)
            found = [files.get(cache, path) for path in ("other", "other", "slow")]
            go_on.set()
            assert waiting.result(PATIENCE_S) == "content of slow"
        assert found == ["content of other", "content of other", "content of slow"]
        assert cache.size_bytes == 2
        assert (cache.hits, cache.misses) == (1, 3)

    def test_many_threads(self) -> None:
        """Each gets the content of the file that it asked for; every look-up is counted; the budget holds."""
        threads, looks, budget = 8, 400, 9
        names = "abcdefgh"
        cache, files = FileCache(budget), Files(**{name: n for n, name in enumerate(names, start=1)})
        start = threading.Barrier(threads, timeout=PATIENCE_S)

        def work(number: int) -> tuple[int, int]:
            start.wait()
            wrong = over = 0
            for n in range(looks):
                path = names[(number + n * (number + 1)) % len(names)]
                wrong += files.get(cache, path) != f"content of {path}"
                over += cache.size_bytes > budget
            return wrong, over

        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(work, range(threads))) == [(0, 0)] * threads
        assert cache.hits + cache.misses == threads * looks
        assert cache.misses == len(files.loaded)
        assert 0 < cache.size_bytes <= budget
