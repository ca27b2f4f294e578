"""Kernels in a store are the kernels; a store is one network's, one set of inputs' and one run's."""

import fcntl
import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import zarr

import finitewidth as fw
from finitewidth.large import tile_program
from finitewidth.large.gram import gram
from finitewidth.large.tile_program import KernelProgram
from large.kernels_of_points import NET, TILE, points
from tolerances import assert_close


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return gram(NET, points(), tmp_path_factory.mktemp("store") / "k.zarr", tile=TILE)


def test_a_store_holds_the_kernels(kept):
    expected = fw.kernels(NET, points())
    for name in ("nngp", "ntk"):
        stored, matrix = getattr(kept, name), np.asarray(getattr(expected, name))
        whole = np.asarray(stored)
        assert_close(whole, matrix)
        assert (whole == whole.T).all()
        assert stored.shape == (90, 90)
        assert (stored[5:40, 30:] == whole[5:40, 30:]).all()
        assert (stored[:0] == whole[:0]).all()
        rows = np.array([80, 3, 17])
        assert (stored.columns(rows) == whole[:, rows]).all()
        assert (stored.dask().compute() == whole).all()
        assert (stored.tile(4, 1) == whole[64:80, 16:32]).all()
    # A point with itself is exact.
    assert_close(np.diag(np.asarray(kept.ntk)), np.asarray(fw.trajectory(NET, points()).ntk[-1]))


def test_other_readers_of_zarr_see_the_upper_half(kept):
    group = zarr.open_group(str(kept.store), mode="r")
    assert (group["x"][...] == points()).all()
    stored, whole = group["ntk"][...], np.asarray(kept.ntk)
    above = np.arange(90)[:, None] // TILE <= np.arange(90) // TILE
    assert (stored[above] == whole[above]).all()
    assert np.isnan(stored[~above]).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precise", [False, True])
def test_products_use_the_upper_half_twice(kept, rng, threads, precise):
    V = rng.normal(size=(90, 4))
    assert_close(kept.ntk.product(V, threads=threads, precise=precise), np.asarray(kept.ntk) @ V)


def test_products_do_not_depend_on_the_number_of_threads(kept, rng):
    V = rng.normal(size=(90, 4))
    assert (kept.nngp.product(V, threads=1) == kept.nngp.product(V, threads=3)).all()


def test_single_precision_and_one_kernel(tmp_path):
    kept = gram(NET, points(40), tmp_path / "k", which=["ntk"], dtype="float32", tile=TILE)
    assert np.asarray(kept.ntk).dtype == np.float32
    assert not hasattr(kept, "nngp")
    assert_close(np.asarray(kept.ntk), fw.kernels(NET, points(40, np.float32)).ntk)
    V = np.ones((40, 1))
    assert_close(kept.ntk.product(V, precise=True), np.asarray(kept.ntk, float) @ V)
    with pytest.raises(ValueError, match="holds ntk only, not nngp"):
        gram(NET, points(40), tmp_path / "k", dtype="float32", tile=TILE)


def test_a_finished_store_is_opened_not_computed(kept, monkeypatch):
    monkeypatch.setattr(sys.modules["finitewidth.large.gram"], "write_tile", None)
    calls = []
    again = gram(NET, points(), kept.store, tile=TILE, progress=lambda *done: calls.append(done))
    assert calls == [(21, 21)]
    assert again.missing() == []
    again.verify()
    # Neither the widths nor the number of outputs matter to the kernels.
    gram(fw.MLP((7, 9), "relu", 0.1, 2.0, n_out=3), points(), kept.store, tile=TILE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"net": fw.MLP((1,), "relu", 0.1, 2.0)}, 'another network: network is {"hidden": 2'),
        ({"net": fw.MLP((1, 1), "relu", 0.1, 1.9)}, "another network"),
        ({"x": points() + 1e-9}, "other inputs: sha256 of x"),
        ({"tile": 20}, "another tile size: tile is 16 there and 20 here"),
        ({"dtype": "float32"}, "other inputs"),
        ({"tolerance": 1e-3}, "another tolerance"),
    ],
)
def test_a_store_of_something_else_is_refused(kept, changes, words):
    settings = {"net": NET, "x": points(), "store": kept.store, "tile": TILE} | changes
    with pytest.raises(ValueError, match=words):
        gram(**settings)


def test_what_is_no_store_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="is no store of kernels: name a new directory"):
        gram(NET, points(20), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(ValueError, match="which must be some of"):
        gram(NET, points(20), tmp_path / "k", which=["ntk", "cov"])
    with pytest.raises(ValueError, match="dtype must be"):
        gram(NET, points(20), tmp_path / "k", dtype="float16")


def test_a_store_that_another_run_holds_is_refused(kept, tmp_path):
    started = gram(NET, points(40), tmp_path / "k", tile=TILE)
    (started.store / "ntk" / "c" / "0" / "0").unlink()
    with (started.store / ".lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match=r"is held by process \d+ on .* since 20"):
            gram(NET, points(40), tmp_path / "k", tile=TILE)
    assert gram(NET, points(40), tmp_path / "k", tile=TILE).missing() == []
    # Attributes are written last: without them a half-made store is none.
    text = json.loads((started.store / "zarr.json").read_text())
    (started.store / "zarr.json").write_text(json.dumps(text | {"attributes": {}}))
    with pytest.raises(ValueError, match="is no store of kernels"):
        gram(NET, points(40), tmp_path / "k", tile=TILE)


@pytest.mark.parametrize("head", ["flatten", "pool"])
def test_images_in_a_store(tmp_path, monkeypatch, rng, head):
    # Tiles of 16 images are cut into smaller ones, as those of 2,048 are.
    monkeypatch.setattr("finitewidth.statistics.wide.position_kernels._ENTRIES", 12 * 7**2)
    x, net = rng.normal(size=(21, 4, 3, 2)), fw.ConvNet((1, 1), (3, 3), "relu", head=head)
    images = gram(net, x, tmp_path / "k", tile=16)
    expected = fw.kernels(net, x)
    assert_close(np.asarray(images.nngp), np.asarray(expected.nngp))
    assert_close(np.asarray(images.ntk), np.asarray(expected.ntk))


def test_kernels_at_positions_are_not_in_memory_for_a_whole_tile(rng):
    x, size = rng.normal(size=(256, 4, 4, 1)), 256
    program = KernelProgram.of(fw.ConvNet((1,), (3, 3), "relu", head="flatten"), x, size)
    lowered = tile_program._tile.lower(*program[:4], jnp.zeros(2, int), size)
    one_kernel = 4 * 4 * size**2 * x.itemsize
    assert lowered.compile().compiled.memory_analysis().temp_size_in_bytes < one_kernel
