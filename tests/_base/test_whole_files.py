"""A file with its final name is complete."""

import pytest

from finitewidth._base.whole_files import whole_file


def test_the_name_appears_with_the_last_byte(tmp_path):
    path = tmp_path / "a[b] é.bin"
    with whole_file(path) as file:
        file.write(b"12")
        assert not path.exists()
        file.write(b"3")
    assert path.read_bytes() == b"123"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_keeps_the_old_file_and_leaves_nothing_else(tmp_path, error):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write():
        with whole_file(path) as file:
            file.write(b"ne")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]
