"""Streaming gives the same kernels as one call, and leaves either a whole file or nothing."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.large import storage
from finitewidth.large.storage import write_kernels
from finitewidth.large.tiles import kernel_tiles, tile_count
from tolerances import assert_close


@pytest.fixture
def net() -> fw.MLP:
    return fw.MLP(hidden=(8, 8, 8), activation="silu")


def assemble(tiles, shape, symmetric: bool) -> dict[str, np.ndarray]:
    whole = {name: np.full(shape, np.nan) for name in ("nngp", "ntk")}
    for tile in tiles:
        for name, matrix in whole.items():
            matrix[tile.rows, tile.columns] = getattr(tile, name)
            if symmetric:
                matrix[tile.columns, tile.rows] = getattr(tile, name).T
    return whole


@pytest.mark.parametrize("size", [4, 7, 100])
def test_symmetric_tiles_are_the_kernels(net, rng, size):
    x = rng.normal(size=(17, 3))
    tiles = list(kernel_tiles(net, x, size=size))
    assert len(tiles) == tile_count(17, size=size)
    whole = assemble(tiles, (17, 17), symmetric=True)
    expected = fw.kernels(net, x)
    assert_close(whole["nngp"], expected.nngp)
    assert_close(whole["ntk"], expected.ntk)
    # A point with itself is exact, however the tiles overlap.
    assert_close(np.diag(whole["ntk"]), fw.trajectory(net, x).ntk[-1])


@pytest.mark.parametrize("size", [4, 7, 100])
def test_rectangular_tiles_are_the_kernels(net, rng, size):
    x1, x2 = rng.normal(size=(9, 3)), rng.normal(size=(14, 3))
    tiles = list(kernel_tiles(net, x1, x2, size=size))
    assert len(tiles) == tile_count(9, 14, size=size)
    whole = assemble(tiles, (9, 14), symmetric=False)
    expected = fw.kernels(net, x1, x2)
    assert_close(whole["nngp"], expected.nngp)
    assert_close(whole["ntk"], expected.ntk)


def test_written_file_holds_kernels_and_settings(net, rng, tmp_path):
    x = rng.normal(size=(11, 4)).astype(np.float32)
    write_kernels(tmp_path / "k.npz", net, x)
    stored = np.load(tmp_path / "k.npz")
    assert stored["ntk"].dtype == np.float32
    assert (stored["ntk"] == stored["ntk"].T).all()
    assert_close(stored["ntk"], fw.kernels(net, x).ntk)
    settings = json.loads(str(stored["settings"]))
    assert settings["activation"] == "silu"
    assert settings["hidden"] == [8, 8, 8]
    assert_close(np.array(settings["C_W"]), net.C_W)
    assert [p.name for p in tmp_path.iterdir()] == ["k.npz"]


def test_an_interrupted_run_leaves_nothing_behind(net, rng, tmp_path):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_kernels(tmp_path / "k.npz", net, rng.normal(size=(5, 2)), on_tile=interrupt)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_noticed_before_the_work(net, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(OSError, match="scratch space"):
        write_kernels(tmp_path / "k.npz", net, rng.normal(size=(5, 2)))


def test_features_must_agree(net, rng):
    with pytest.raises(ValueError, match="3 features and x2 has 2"):
        list(kernel_tiles(net, rng.normal(size=(4, 3)), rng.normal(size=(4, 2))))
