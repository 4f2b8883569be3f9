"""Reading: whatever the kind of file and the names of its columns, the same numbers arrive, or one clear line does."""

import contextlib
import os
import shutil
import tomllib

import h5py
import jax
import numpy as np
import pandas
import polars
import pytest
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fnode
from fnode import io
from fnode.analysis import quality
from fnode.derivatives import estimated, positions_only
from fnode.errors import InputError
from fnode.io import readers
from fnode.io.matlab import read_arrays_of_mat
from fnode.preparation import split

TS = np.arange(40) * 0.05
TABLE = {"t": TS, "x": np.cos(TS), "theta": 0.1 * TS**2, "d_x": -np.sin(TS), "d_theta": 0.2 * TS, "u": np.sin(3 * TS)}


def text(delimiter=",", decimal=".", table=TABLE, newline="\n"):
    rows = [
        delimiter.join(table),
        *(delimiter.join(f"{v!r}" for v in row) for row in np.stack([*table.values()]).T.tolist()),
    ]
    return newline.join([rows[0], *(row.replace(".", decimal) for row in rows[1:])]) + newline


def zarr(path):
    root = pytest.importorskip("zarr").open_group(path, mode="w")
    for name, values in TABLE.items():
        root.create_array(name, data=np.asarray(values))


def hdf5(path, table=TABLE):
    with h5py.File(path, "w") as file:
        for name, values in table.items():
            file[name] = values


WRITERS = {
    "comma.csv": lambda path: path.write_text(text()),
    "semicolon.csv": lambda path: path.write_text(text(";", ",")),
    "tab.tsv": lambda path: path.write_text(text("\t")),
    "bar.txt": lambda path: path.write_text(text("|")),
    "blanks.dat": lambda path: path.write_text(text("   ")),
    "windows.csv": lambda path: path.write_bytes(b"\xef\xbb\xbf" + text(newline="\r\n").encode()),
    "remarks.csv": lambda path: path.write_text("# measured on a bench\n\n" + text()),
    "savetxt.txt": lambda path: np.savetxt(path, np.stack([*TABLE.values()]).T, header=" ".join(TABLE), fmt="%.17g"),
    "pandas.csv": lambda path: pandas.DataFrame(TABLE).to_csv(path),
    "table.parquet": lambda path: polars.DataFrame(TABLE).write_parquet(path),
    "arrays.npz": lambda path: np.savez(path, **TABLE),
    "rows.mat": lambda path: scipy.io.savemat(path, TABLE, oned_as="row"),
    "columns.mat": lambda path: scipy.io.savemat(path, TABLE, oned_as="column"),
    "deflated.mat": lambda path: scipy.io.savemat(path, TABLE, do_compression=True),
    "flat.h5": hdf5,
    "frame.hdf5": hdf5,
    "folder.zarr": zarr,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_same_numbers(tmp_path, name):
    WRITERS[name](tmp_path / name)
    found = fnode.read(tmp_path / name)["0"]
    names = [column.name for column in found.columns.state]
    assert sorted(names) == ["d_theta", "d_x", "theta", "x"]
    assert [column.name for column in found.columns.inputs] == ["u"]
    np.testing.assert_array_equal(found.ts, TABLE["t"])
    np.testing.assert_array_equal(found.states, np.stack([TABLE[name] for name in names], axis=1))
    np.testing.assert_array_equal(found.u[:, 0], TABLE["u"])


def test_every_kind_of_file_has_a_reader_that_is_tested():
    assert {os.path.splitext(name)[1] for name in WRITERS} == set(io.READERS)


def test_mat_files_hold_what_scipy_finds_in_them(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(5, dtype=np.int16), "c": np.array([["x"]]), "d": 1.5}
    words = {"w": np.array(["train", "test "]), "s": {"inner": 1.0}, "k": np.array([1.0, "a"], dtype=object)}
    for compressed in (False, True):
        scipy.io.savemat(tmp_path / "all.mat", {**arrays, **words}, do_compression=compressed)
        theirs = scipy.io.loadmat(tmp_path / "all.mat")
        ours = read_arrays_of_mat((tmp_path / "all.mat").read_bytes())
        assert set(ours) == {*arrays, "w"}
        for name in ("a", "b", "d"):
            np.testing.assert_array_equal(ours[name], theirs[name])
            assert ours[name].dtype == theirs[name].dtype
        assert ours["w"].tolist() == ["train", "test"]


def test_groups_of_an_hdf5_file_are_trajectories(tmp_path):
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        for name, count in (("first", 10), ("second", 20)):
            for column, values in TABLE.items():
                file[f"{name}/{column}"] = values[:count]
    assert {name: len(part) for name, part in fnode.read(tmp_path / "runs.h5").items()} == {"first": 10, "second": 20}


Q, V = np.stack([TABLE["x"], TABLE["theta"]], axis=1), np.stack([TABLE["d_x"], TABLE["d_theta"]], axis=1)
OBJECTS = {
    "arrays": lambda: (TS, Q, V, TABLE["u"]),
    "dict of arrays": lambda: {"t": TS, "q": Q, "v": V, "u": TABLE["u"]},
    "dict of columns": lambda: TABLE,
    "pandas": lambda: pandas.DataFrame(TABLE),
    "polars": lambda: polars.DataFrame(TABLE),
    "trajectory": lambda: fnode.read(polars.DataFrame(TABLE))[0],
    "trajectories": lambda: fnode.read(polars.DataFrame(TABLE)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_python_objects_are_read_as_files_are(name):
    given = OBJECTS[name]()
    alone, listed = fnode.read(given), fnode.read([given, given]) if name != "trajectories" else None
    np.testing.assert_array_equal(alone[0].states, np.concatenate([Q, V], axis=1))
    np.testing.assert_array_equal(alone[0].u[:, 0], TABLE["u"])
    assert listed is None or len(listed) == 2


def test_numbers_are_double_whatever_the_caller_computes_in():
    with jax.enable_x64(False):
        found = fnode.read(polars.DataFrame(TABLE))[0]
    assert found.ts.dtype == np.float64
    np.testing.assert_array_equal(found.x.q, Q)


@pytest.mark.parametrize(
    ("header", "coordinates", "velocities", "inputs"),
    [
        ("t,x,d_x", ["x"], ["d_x"], []),
        ("t,x,d_x,mu", ["x"], ["d_x"], ["mu"]),
        ("t,x,d_x,dd_x", ["x"], ["d_x"], []),
        ("t,d_x,x,F", ["x"], ["d_x"], ["F"]),
        ("time,theta1,theta2,omega1,omega2", ["theta1", "theta2"], ["omega1", "omega2"], []),
        ("t,q1,q2,v1,v2,u1", ["q1", "q2"], ["v1", "v2"], ["u1"]),
        ("t,x,v", ["x"], ["v"], []),
        ("t,x,y,vx,vy", ["x", "y"], ["vx", "vy"], []),
        ("t,x,theta,dx,dtheta,force", ["x", "theta"], ["dx", "dtheta"], ["force"]),
        ("Time,Theta,Theta_dot,Torque", ["Theta"], ["Theta_dot"], ["Torque"]),
        ("t,q_1,q_2,q_dot_1,q_dot_2", ["q_1", "q_2"], ["q_dot_1", "q_dot_2"], []),
        ("time,position,velocity", ["position"], ["velocity"], []),
        ("t [s],theta [rad],omega [rad/s],u [N m]", ["theta"], ["omega [rad/s]"], ["u"]),
        ("t,theta1,theta2", ["theta1", "theta2"], [], []),
        ("t,q,u", ["q"], [], ["u"]),
    ],
)
def test_headers_say_what_columns_are(header, coordinates, velocities, inputs):
    meant = io.understood(header.split(","), io.Roles(), "data.csv")
    assert [column.name for column in meant.columns.coordinates] == coordinates
    assert meant.as_values()["velocities"] == velocities
    assert [column.name for column in meant.columns.inputs] == inputs
    assert meant.measured == bool(velocities)


def test_angles_are_known_by_name_or_unit():
    header = ["t", "theta1", "x [rad]", "x2", "phi [deg]"]
    columns = io.understood(header, io.Roles(), "data.csv").columns
    assert [column.angle for column in columns.coordinates] == [True, True, False, False]
    columns = io.understood(header, io.Roles(angles=("x2",)), "data.csv").columns
    assert [column.angle for column in columns.coordinates] == [False, False, True, False]
    with pytest.raises(InputError, match="degrees"):
        io.understood(header, io.Roles(angles=("phi",)), "data.csv")


@pytest.mark.parametrize(
    "header",
    [
        "t,x,d_x,theta",
        "time,theta,omega,temperature",
        "t,x,vx,dx",
        "t,time,x,v",
        "t,a,b",
        "t,x,v,x2",
        't,x,v,"odd" \\ name',
    ],
)
def test_the_toml_that_an_ambiguous_header_is_answered_with_works(header, tmp_path):
    names = header.split(",")
    with pytest.raises(InputError) as refusal:
        io.understood(names, io.Roles(), "data.csv")
    line = str(refusal.value)
    assert "\n" not in line
    toml = line[line.index("data = {") : line.rindex("}") + 1]
    roles = tomllib.loads(toml)["data"]
    (tmp_path / "roles.toml").write_text(toml)
    assert io.understood(names, io.Roles.of(roles), "data.csv").columns.coordinates
    from fnode.config import read_config, validated

    assert io.roles_given(validated(read_config(tmp_path / "roles.toml")).data.roles) == io.roles_given(
        io.Roles.of(roles)
    )


def test_what_was_understood_can_be_written_and_read_again():
    names = ["zeit", "winkel", "tempo", "kraft", "masse", "note"]
    said = dict(time="zeit", coordinates=["winkel"], velocities=["tempo"], inputs=["kraft"], parameters=["masse"])
    meant = io.understood(names, io.Roles.of(said | {"angles": "winkel", "units": {"kraft": "N"}}), "data.csv")
    again = io.understood(names, io.Roles.of(tomllib.loads(io.toml(meant.as_values()))["data"]), "data.csv")
    assert again == meant
    assert again.ignored == ("note",)
    assert [column.unit for column in again.columns.external] == ["N", ""]


MARKED = {
    "run": np.repeat(["a", "b", "c"], [15, 10, 15]),
    "split": np.repeat(["Train", "TEST", "train", "validation"], [15, 10, 9, 6]),
}


def test_the_split_is_a_column_a_list_or_a_share():
    table = polars.DataFrame({**TABLE, **MARKED})
    marked = fnode.read(table)
    assert [(r.name, r.training, r.split) for r in split(marked)] == [
        ("a", 15, "train"),
        ("b", 0, "test"),
        ("c", 9, "train+test"),
    ]
    assert [r.training for r in split(marked, ["a", "c"])] == [0, 10, 0]
    assert [r.training for r in split(marked, 0.5)] == [8, 5, 8]
    with pytest.raises(InputError, match="no trajectory 'z'"):
        split(marked, ["z"])
    plain = fnode.read(table.drop("split"))
    assert [r.training for r in split(plain)] == [11, 8, 11]
    with pytest.raises(InputError, match="banana"):
        fnode.read(table.with_columns(split=polars.lit("banana")))


def test_angles_lose_their_jumps():
    turning = np.linspace(0, 20, 200)
    wrapped = np.angle(np.exp(1j * turning))
    found = fnode.read({"t": np.arange(200) * 0.1, "theta": wrapped, "omega": np.ones(200)})
    np.testing.assert_allclose(found[0].x.q[:, 0], turning, atol=1e-12)
    assert "jumps" in found.notes[0]


def pendulum(noise=0.0, count=400):
    ts = np.arange(count) * 0.02
    q = np.stack([np.sin(2 * ts) + 0.3 * np.cos(5 * ts), np.cos(3 * ts)], axis=1)
    v = np.stack([2 * np.cos(2 * ts) - 1.5 * np.sin(5 * ts), -3 * np.sin(3 * ts)], axis=1)
    return ts, q + noise * np.std(q, axis=0) * np.random.default_rng(0).normal(size=q.shape), v


@pytest.mark.parametrize("way", ["rows", "cells"])
def test_positions_with_noise_and_holes_are_enough(way):
    ts, q, v = pendulum(noise=0.01, count=200)
    kept = np.arange(len(ts)) % 5 != 4
    if way == "rows":
        found = fnode.read((ts[kept], q[kept]))
        v = v[kept]
    else:
        q[~kept] = np.nan
        with pytest.raises(InputError, match="gaps=bridge"):
            fnode.read((ts, q))
        found, v = fnode.read((ts, q), gaps="bridge"), v[: len(ts) - 1]
        assert "39 incomplete samples bridged" in found.notes[0]
    assert positions_only(found[0])
    speed = np.asarray(estimated(found[0]).x.v)
    error = np.sqrt(np.mean((speed - v) ** 2, axis=0)) / np.std(v, axis=0)
    assert np.all(error < 0.03)
    if way == "cells":
        return
    model = fnode.learn(found, recipe="paper", labels={"labels": "auto"}, training={"epochs": 2}, network={"width": 4})
    future = model.simulate(found[0], until=0.5)
    assert np.all(np.isfinite(future.states))


def test_gaps_split_or_are_bridged_by_choice():
    ts, q, v = pendulum()
    kept = np.ones(len(ts), bool)
    kept[100:114], kept[200:260] = False, False
    source = (ts[kept], q[kept], v[kept], ts[kept])
    with pytest.raises(InputError, match=r"gap of 0.3 after row 100 .*gaps=split.*gaps=bridge"):
        fnode.read(source)
    cut = fnode.read(source, gaps="split")
    assert [len(part) for part in cut.values()] == [100, 86, 140]
    assert sum(map(len, cut.values())) == kept.sum()
    bridged = fnode.read(source, gaps="bridge")
    assert [len(part) for part in bridged.values()] == [200, 140]
    first = bridged[0]
    np.testing.assert_allclose(first.ts, ts[:200], atol=1e-9)
    np.testing.assert_allclose(first.u[:, 0], ts[:200], atol=1e-9)
    assert np.isnan(first.x.q[100:114]).all()
    np.testing.assert_allclose(estimated(first).x.q, q[:200], atol=1e-4)


def test_blocks_of_nan_are_told_bridged_or_cut():
    ts, q, v = pendulum(count=200)
    q[50:55, 0], q[120:170, 1] = np.nan, np.nan
    with pytest.raises(InputError, match=r"column 'q1' in row 51 \(sample 50"):
        fnode.read((ts, q, v))
    assert [len(part) for part in fnode.read((ts, q, v), gaps="split").values()] == [50, 65, 30]
    assert [len(part) for part in fnode.read((ts, q, v), gaps="bridge").values()] == [120, 30]
    with pytest.raises(InputError, match="no stretch"):
        fnode.read((ts, np.full_like(q, np.nan), v), gaps="bridge")


def test_irregular_times_are_no_gaps():
    ts = np.cumsum(np.random.default_rng(1).uniform(0.2, 1.8, 300)) * 0.01
    assert len(fnode.read((ts, np.sin(ts)))[0]) == 300
    mixed = np.concatenate([np.arange(100) * 0.001, 0.1 + np.arange(100) * 0.1])
    assert len(fnode.read((mixed, np.sin(mixed)))[0]) == 200


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ("empty",)),
        ("\n \n", ("no rows",)),
        ("0,1,2\n1,2,3\n", ("no header", "0, 1, 2")),
        ("t,x,d_x\n0,1\n", ("'d_x'", "row 1")),
        ("t,x,d_x\n0,1,2\n1,2,3,4\n", ("row 2", "4 cells")),
        ("t,x,d_x,x\n0,1,2,3\n", ("'x' appears twice",)),
        ("t,x,d_x\n0,1,2\n1,1,2\n1,1,2\n", ("row 3", "repeats", "row 2")),
        ("t,x,d_x\n0,1,2\n1,1,2\n0.5,1,2\n", ("row 3", "goes back")),
        ("t,x,d_x\n0,1,2\nnan,1,2\n", ("time", "row 2")),
        ("run,t,x,v\na,0,1,2\nb,0,1,2\na,1,1,2\nb,0,1,2\n", ("trajectory b", "row 4", "row 2")),
        ("t,x,d_x\n0,1,2\n1,one,2\n", ("'x'", "'one'", "row 2")),
        ("t,x,d_x,u\n0,1,2,3\n1,1,2,\n", ("'u'", "row 2")),
        ("t,x\n0,1\n1,2\n", ("2 samples of positions only", "d_NAME")),
        ("x,d_x\n1,2\n", ("'t'", "--set time=NAME")),
        ("t\tx\0\n", ("text file",)),
    ],
)
def test_bad_tables_are_told_in_one_line(tmp_path, content, words):
    (tmp_path / "data.csv").write_bytes(content.encode())
    with pytest.raises(InputError) as refusal:
        fnode.read(tmp_path / "data.csv")
    assert "\n" not in str(refusal.value)
    for word in words:
        assert word in str(refusal.value)


def test_folders_limits_and_moving_files(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="a folder"):
        fnode.read(tmp_path)
    (tmp_path / "data.docx").write_text("t,x")
    with pytest.raises(InputError, match="must end in"):
        fnode.read(tmp_path / "data.docx")
    with (tmp_path / "huge.csv").open("wb") as file:
        file.truncate(1_000_000_000)
    with pytest.raises(InputError, match="1000 MB, the limit is 500 MB"):
        fnode.read(tmp_path / "huge.csv")
    path = tmp_path / "growing.csv"
    path.write_text(text())

    def slow(there):
        table = readers.read_text(there)
        there.write_text(text() + "9,1,1,1,1,1\n")
        return table

    monkeypatch.setitem(readers.READERS, ".csv", slow)
    with pytest.raises(InputError, match="changed while"):
        fnode.read(path)


def test_every_file_needs_the_columns_of_the_first(tmp_path):
    (tmp_path / "a.csv").write_text("t,theta,omega\n0,1,2\n1,2,3\n")
    (tmp_path / "b.csv").write_text("t,theta,d_theta\n0,1,2\n1,2,3\n2,3,4\n")
    (tmp_path / "c.csv").write_text("t,phi,omega\n0,1,2\n1,2,3\n")
    found = fnode.read([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert {name: len(part) for name, part in found.items()} == {"a/0": 2, "b/0": 3}
    with pytest.raises(InputError, match=r"c.csv: no column 'theta'"):
        fnode.read([tmp_path / "a.csv", tmp_path / "c.csv"])


ODD = ["", "nan", "x", "1e400", "1,5", "-", '"', "é", "#1"]
NUMBERS = st.one_of(st.floats(width=32), st.integers(-5, 5), st.sampled_from(ODD))
HEADERS = st.lists(
    st.sampled_from(
        ["t", "time", "x", "d_x", "theta", "omega", "v", "u", "split", "run", "a b", "", "x [m]", "1", '"q', "<b>"]
    ),
    max_size=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=HEADERS,
    rows=st.lists(st.lists(NUMBERS, max_size=6), max_size=12),
    delimiter=st.sampled_from([",", ";", "\t", " ", "|"]),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
    gaps=st.sampled_from([None, "split", "bridge", "keep"]),
)
def test_no_table_of_text_breaks_the_reader(tmp_path, header, rows, delimiter, ending, gaps):
    lines = [delimiter.join(header), *(delimiter.join(map(str, row)) for row in rows)]
    (tmp_path / "any.csv").write_text(ending.join(lines), encoding="utf-8")
    refused_or_sound(tmp_path / "any.csv", gaps)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=300),
    cut=st.integers(0, 3000),
    flip=st.integers(0, 3000),
    suffix=st.sampled_from([suffix for suffix in io.READERS if suffix not in io.FOLDERS]),
)
def test_no_bytes_break_a_reader(tmp_path, content, cut, flip, suffix):
    """Random bytes, and sound files cut short or with bytes changed."""
    path = tmp_path / f"any{suffix}"
    path.write_bytes(content)
    refused_or_sound(path)
    writer = next(name for name in WRITERS if name.endswith(suffix))
    WRITERS[writer](path)
    sound = bytearray(path.read_bytes())
    path.write_bytes(sound[: cut % len(sound)])
    refused_or_sound(path)
    where = flip % len(sound)
    sound[where : where + len(content)] = content
    path.write_bytes(sound)
    refused_or_sound(path)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, 99), content=st.binary(max_size=200))
def test_no_bytes_in_a_folder_break_its_reader(tmp_path, number, content):
    folder = tmp_path / "any.zarr"
    zarr(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    files[number % len(files)].write_bytes(content)
    refused_or_sound(folder)
    shutil.rmtree(folder)


VALUES = st.one_of(st.floats(-1e3, 1e3), st.just(float("nan")), st.just(0.0), st.floats(1e-300, 1e300))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from([0.01, 0.01, 0.01, 0.02, 0.5, 7.0]), min_size=1, max_size=40),
    values=st.lists(VALUES, min_size=40, max_size=40),
    speeds=st.booleans(),
    gaps=st.sampled_from([None, "split", "bridge"]),
)
def test_no_record_breaks_cleaning_estimating_or_checking(tmp_path, steps, values, speeds, gaps):
    ts = np.cumsum(steps)
    table = {"t": ts, "theta": np.array(values[: len(ts)])} | (
        {"omega": np.roll(values, 7)[: len(ts)]} if speeds else {}
    )
    polars.DataFrame(table).write_csv(tmp_path / "any.csv")
    with contextlib.suppress(InputError):
        quality(tmp_path / "any.csv")
    with contextlib.suppress(InputError):
        for part in fnode.read(tmp_path / "any.csv", gaps=gaps).values():
            assert np.all(np.isfinite(estimated(part).states))


def refused_or_sound(path, gaps=None):
    try:
        found = fnode.read(path, gaps=gaps)
    except InputError:
        return
    for part in found.values():
        assert np.all(np.diff(part.ts) > 0)
        if gaps is None and not positions_only(part):
            assert np.all(np.isfinite(part.states))
