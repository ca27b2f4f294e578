"""Laws, networks and results go through pickle, files, copies and JAX's transformations unchanged."""

import contextlib
import copy
import dataclasses
import io
import json
import multiprocessing
import os
import pickle
import sys
import types
import zipfile

import cloudpickle
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.architecture.activations import as_activation, leaky_relu, monomial
from finitewidth.prediction.law.provenance import Provenance
from finitewidth.prediction.selection.certificates import convergence_certificate
from finitewidth.prediction.selection.learning_curves import predicted_learning_curve
from finitewidth.prediction.selection.model_comparison import compare_models

NAMES = [*fw.ACTIVATION_NAMES, "leaky_relu:0.2", "leaky_relu:0.1234567890123", "monomial:3"]
X, Y, X_TEST = np.linspace(-1, 1, 4)[:, None], np.array([0.3, -0.5, 0.1, 0.9]), np.array([[0.1], [0.6]])

COPIES = {
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "cloudpickle": lambda thing: cloudpickle.loads(cloudpickle.dumps(thing)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def squareplus(z):
    return (z + jnp.sqrt(z**2 + 4)) / 2


@jax.jit
def compiled(z):
    return squareplus(z)


def network(activation="tanh", width=300):
    return fw.MLP((width, width), activation, 0.1, 1.3, lambda_b=0.7, lambda_W=0.9)


def asked_of_predict():
    few = fw.SampledNeurons(0.3, most_samples=4000, covariance_error=0.5, key=jax.random.key(3))
    return {
        "order 0": {"ridge": 0.1},
        "stopped": {"algorithm": fw.GradientDescent(0.01, 20)},
        "given start": {"algorithm": fw.DirectOptimization(), "initial": jnp.sin},
        "posterior": {"algorithm": fw.BayesianInference(0.1)},
        "order 1, dense": {"algorithm": fw.GradientFlow(2.0), "order": 1},
        "order 1, sampled": {"algorithm": fw.GradientDescent("auto", 20), "order": 1, "method": few},
    }


@pytest.fixture(scope="module")
def laws():
    return {name: fw.predict(network(), X, Y, X_TEST, **asked) for name, asked in asked_of_predict().items()}


@pytest.fixture(params=list(asked_of_predict()))
def law(request, laws):
    return laws[request.param]


def assert_same(copied, original):
    """Equal classes, settings, shapes, types and bits."""
    assert type(copied) is type(original)
    assert jax.tree.structure(copied) == jax.tree.structure(original)
    for a, b in zip(jax.tree.leaves(copied), jax.tree.leaves(original), strict=True):
        assert isinstance(a, jax.Array) == isinstance(b, jax.Array)
        if isinstance(b, jax.Array) and jnp.issubdtype(b.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def saved(thing, directory):
    return fw.load(thing.save(directory / "thing.npz"))


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", NAMES)
def test_an_activation_equals_its_copy(name, way):
    activation = as_activation(name)
    assert COPIES[way](activation) == activation
    assert_same(COPIES[way](network(name)), network(name))


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("function", [squareplus, compiled, jax.nn.hard_tanh, jax.nn.gelu])
def test_an_importable_function_travels_by_reference(function, way, monkeypatch):
    """Tests are not importable by name, as a user's modules are: stand in for one."""
    if function in (squareplus, compiled):
        importable = types.ModuleType(function.__module__)
        setattr(importable, function.__name__, function)
        monkeypatch.setitem(sys.modules, function.__module__, importable)
    activation = fw.Activation(function, name="mine")
    assert COPIES[way](activation) == activation


def test_a_lambda_travels_with_cloudpickle_only():
    activation = fw.Activation(lambda z: z * jnp.tanh(z), name="mine")
    copied = COPIES["cloudpickle"](activation)
    z = jnp.linspace(-2, 2, 9)
    assert copied.name == "mine"
    assert (copied(z) == activation(z)).all()
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(activation)


def test_families_are_one_activation_for_one_parameter():
    assert leaky_relu() == leaky_relu(0.01) == leaky_relu(slope=0.01) == as_activation("leaky_relu:0.01")
    assert monomial(3) == monomial(3.0) == as_activation("monomial:3")
    assert leaky_relu(0.12345678) != leaky_relu(0.12345679)
    assert leaky_relu(0.12345678).name == "leaky_relu:0.12345678"


def test_a_known_function_of_jax_is_the_built_in_activation():
    assert as_activation(jax.nn.relu) == as_activation("relu")
    assert as_activation(jnp.tanh) == as_activation("tanh")
    # That of JAX is the approximation by tanh.
    assert as_activation(jax.nn.gelu) != as_activation("gelu")


@pytest.mark.parametrize("way", COPIES)
def test_laws_are_copied(law, way):
    assert_same(COPIES[way](law), law)


@pytest.fixture(scope="module")
def results(laws):
    return (
        fw.verify(laws["stopped"], networks=3),
        fw.corrections(network(), X[:2]),
        fw.tune("tanh", 3, 64),
        fw.train_ensemble(network(width=4), jax.random.key(0), 3, X, Y, steps=2, learning_rate=0.01),
    )


@pytest.mark.parametrize("way", COPIES)
def test_results_are_copied(results, way):
    check, tensors, advice, nets = results
    assert_same(COPIES[way](check), check)
    assert_same(COPIES[way](nets), nets)
    copied = COPIES[way](tensors)
    assert (copied.V == tensors.V).all()
    assert (copied.S == tensors.S).all()
    for name in NAMES:
        tuned = dataclasses.replace(advice, net=network(name))
        assert COPIES[way](tuned).to_dict() == tuned.to_dict()
        assert_same(COPIES[way](tuned).net, tuned.net)


@pytest.mark.parametrize("name", NAMES)
def test_networks_and_laws_are_saved_for_every_activation(name, tmp_path):
    net = fw.MLP(
        (8, 5), name, [0.1, 0.2, 0.3], 1.7, lambda_W=[1.0, 0.5, 2.0], n_out=2, parametrisation="mup:16"
    )
    assert_same(saved(net, tmp_path), net)
    law = fw.TrainedDistribution(jnp.zeros((2, 1)), jnp.eye(2), None, provenance(name))
    assert_same(saved(law, tmp_path), law)


def provenance(name):
    problem = fw.TrainingProblem(network(name), *(jnp.asarray(a) for a in (X, Y[:, None], X_TEST)))
    return Provenance(problem, fw.GradientDescent(), 0, 0.5, True)


def with_kernels(law):
    """A law from a file, which holds no kernels, with those of its problem."""
    return eqx.tree_at(lambda l: l.provenance.problem, law, law.provenance.problem.computed())


def test_laws_are_saved(law, tmp_path):
    loaded = saved(law, tmp_path)
    assert loaded.provenance.problem.kernels is None
    assert_same(with_kernels(loaded), law)


def test_single_precision_is_saved(tmp_path):
    law = fw.predict(network(), X.astype(np.float32), Y, X_TEST, ridge=0.1)
    assert law.mean.dtype == "float32"
    assert_same(with_kernels(saved(law, tmp_path)), law)


def test_what_a_loaded_law_can_do(laws, tmp_path):
    law = laws["stopped"]
    loaded = saved(law, tmp_path)
    key = jax.random.key(1)
    assert (loaded.sample(key, 3) == law.sample(key, 3)).all()
    ours, theirs = (fw.verify(each, networks=3, key=key) for each in (law, loaded))
    assert_same(theirs, ours)
    assert_same(saved(ours, tmp_path), ours)


def test_corrections_are_saved(tmp_path):
    for activation in ("tanh", "relu"):
        tensors = fw.corrections(network(activation), X[:2])
        loaded = saved(tensors, tmp_path)
        for name in ("K", "Theta", "G1", "V", "H1", "D", "F", "A", "B", "width"):
            assert np.array_equal(getattr(loaded, name), getattr(tensors, name))
    with pytest.raises(ValueError, match="P does not exist"):
        _ = loaded.P


def test_equal_laws_make_equal_files(laws, tmp_path):
    first, second = (laws["order 0"].save(tmp_path / name) for name in ("a", "b.npz"))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a", "b.npz"]


def test_the_file_is_plain_numpy_and_json(laws, tmp_path):
    law = laws["order 1, sampled"]
    path = law.save(tmp_path / "law.npz")
    with np.load(path, allow_pickle=False) as stored:
        assert (stored["mean"] == law.mean).all()
        text = json.loads(stored["finitewidth.json"])
    described = text["content"]["fields"]["provenance"]["fields"]
    assert described["problem"]["fields"]["net"]["fields"]["activation"] == {"activation": "tanh"}
    assert described["algorithm"] == {"class": "GradientDescent", "fields": {"eta": "auto", "steps": 20}}
    assert set(text["versions"]) == {"finitewidth", "jax", "numpy"}


def test_a_failed_save_leaves_the_old_file(laws, tmp_path):
    path = laws["order 0"].save(tmp_path / "law.npz")
    before = path.read_bytes()
    mine = fw.predict(network(squareplus), X, Y, X_TEST, ridge=0.1)
    with pytest.raises(
        ValueError, match=r"provenance\.problem\.net\.activation is the function 'squareplus'.*cloudpickle"
    ):
        mine.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["law.npz"]


def test_a_link_is_followed(laws, tmp_path):
    (tmp_path / "link.npz").symlink_to(tmp_path / "law.npz")
    laws["order 0"].save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert_same(with_kernels(fw.load(tmp_path / "law.npz")), laws["order 0"])


def test_where_nothing_can_be_saved(laws, tmp_path):
    with pytest.raises(IsADirectoryError, match="is a directory; save needs the name of a file"):
        laws["order 0"].save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*missing to save law\.npz in"):
        laws["order 0"].save(tmp_path / "missing" / "law.npz")


def rewritten(path, change):
    """The same file with its text changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = json.loads(members["finitewidth.json"])
    change(text)
    members["finitewidth.json"] = json.dumps(text).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


WRONG_TEXT = {
    "newer": (lambda t: t.update(format=99), r"saved by finitewidth .* in format 99.*install a newer"),
    "no content": (lambda t: t.pop("content"), "damaged: 'content' is missing"),
    "other class": (lambda t: t["content"].update({"class": "Popen"}), "object 'Popen' that this version"),
    "lost field": (lambda t: t["content"]["fields"].pop("mean"), "damaged"),
    "lost array": (lambda t: t["content"]["fields"]["mean"].update(array="gone"), "'gone' is missing in it"),
    "wrong activation": (
        lambda t: t["content"]["fields"]["provenance"]["fields"]["problem"]["fields"]["net"]["fields"].update(
            activation={"activation": "tanhh"}
        ),
        "damaged: unknown activation 'tanhh'",
    ),
}


@pytest.mark.parametrize("case", WRONG_TEXT)
def test_a_file_with_another_text_is_refused(case, laws, tmp_path):
    change, sentence = WRONG_TEXT[case]
    path = laws["order 0"].save(tmp_path / "law.npz")
    rewritten(path, change)
    with pytest.raises(ValueError, match=sentence) as refusal:
        fw.load(path)
    assert "law.npz" in str(refusal.value)


def test_damaged_files_are_refused_with_their_name(laws, tmp_path, rng):
    path = laws["order 1, dense"].save(tmp_path / "law.npz")
    whole = path.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"law\.npz is (cut short|damaged)"):
            fw.load(path)
    for place in rng.integers(len(whole), size=60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        # A flipped byte in a date or a flag of the archive's directory changes nothing.
        with contextlib.suppress(ValueError):
            assert_same(with_kernels(fw.load(path)), laws["order 1, dense"])


def test_a_damaged_directory_of_the_archive_is_refused(laws, tmp_path):
    """The byte that says which version of the format its reader must know."""
    path = laws["order 0"].save(tmp_path / "law.npz")
    whole = bytearray(path.read_bytes())
    whole[whole.rindex(b"PK\x01\x02") + 6] = 210
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"law\.npz is cut short"):
        fw.load(path)


def repacked(path, change=lambda members: None, compression=zipfile.ZIP_STORED):
    """The archive once more, with other members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def _npy(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _in_single_precision(members):
    members["mean.npy"] = _npy(np.load(io.BytesIO(members["mean.npy"])).astype(np.float32))


def _swapped(members):
    members["mean.npy"], members["covariance.npy"] = members["covariance.npy"], members["mean.npy"]


def _swapped_by_the_text(members):
    text = json.loads(members["finitewidth.json"])
    fields = text["content"]["fields"]
    fields["mean"], fields["covariance"] = fields["covariance"], fields["mean"]
    members["finitewidth.json"] = json.dumps(text).encode()


def _huge(members):
    """Many numbers in the header, and none behind it."""
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(file, header)
    members["mean.npy"] = file.getvalue()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            _in_single_precision,
            r"mean is an array of type <f4 and shape .*, and was saved with type <f8",
        ),
        (_swapped, r"mean is an array of type <f8 and shape .*, and was saved with .*, 1\)"),
        (
            _swapped_by_the_text,
            r"covariance has type float64 and shape .*, 1\), which does not",
        ),
        (_huge, r"mean\.npy is not of the size that its header states"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_arrays_that_are_others_than_those_saved_are_refused(laws, tmp_path, change, sentence):
    path = laws["order 0"].save(tmp_path / "law.npz")
    assert_same(with_kernels(fw.load(repacked(path))), laws["order 0"])
    with pytest.raises(ValueError, match=f"law\\.npz is damaged: {sentence}"):
        fw.load(repacked(path, change))


def test_a_small_file_cannot_take_much_memory(laws, tmp_path):
    """Zeros that are compressed a thousandfold, and one member under many names."""
    path = laws["order 0"].save(tmp_path / "law.npz")
    repacked(path, lambda members: members.update({"zeros.npy": _npy(np.zeros(10**6))}), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**5
    with pytest.raises(ValueError, match=r"law\.npz is damaged: its members are compressed"):
        fw.load(path)
    path = laws["order 0"].save(tmp_path / "law.npz")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("zeros.npy", _npy(np.zeros(10**4)))
        for place in range(10):
            again = copy.copy(archive.getinfo("zeros.npy"))
            again.filename = f"zeros-{place}.npy"
            archive.filelist.append(again)
    with pytest.raises(ValueError, match=r"law\.npz is damaged: its members are larger than the file"):
        fw.load(path)


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    (tmp_path / "words.npz").write_text("hello")
    with pytest.raises(ValueError, match=r"other\.npz was not written by the save of finitewidth"):
        fw.load(tmp_path / "other.npz")
    with pytest.raises(ValueError, match=r"words\.npz is cut short, or no file that the save"):
        fw.load(tmp_path / "words.npz")
    with pytest.raises(IsADirectoryError, match="is a directory; load needs a file"):
        fw.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.npz"):
        fw.load(tmp_path / "none.npz")


TRANSFORMATIONS = {
    "jit": jax.jit(lambda law: law),
    "filter_jit": eqx.filter_jit(lambda law: law),
    "tree_map": lambda law: jax.tree.map(lambda a: a, law),
    "vmap": lambda law: jax.tree.map(
        lambda a: a[0], jax.vmap(lambda law: law, in_axes=None, axis_size=2, out_axes=0)(law)
    ),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_laws_pass_through_transformations(law, name):
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(law))
    assert_same(TRANSFORMATIONS[name](law), law)


RESULTS = {
    "TrainingProblem": lambda: fw.TrainingProblem.of(network(), X, Y, X_TEST),
    "Kernels": lambda: fw.kernels(network(), X),
    "LossCurves": lambda: fw.loss_curves(
        fw.TrainingProblem.of(network(), X, Y, X_TEST), fw.GradientFlow(), [0.0, 1.0], Y[:2]
    ),
    "Verification": lambda: fw.verify(fw.predict(network(width=8), X, Y, X_TEST, ridge=0.1), 3, most_steps=9),
    "Corrections": lambda: fw.corrections(network(), X[:2]),
    "Corrections at a kink": lambda: fw.corrections(network("relu"), X[:2]),
    "DepthGrowth": lambda: fw.depth_growth(network()),
    "Criticality": lambda: fw.criticality("gelu"),
    "PhaseDiagram": lambda: fw.phase_diagram("relu", np.array([1.0, 2.0]), np.array([0.1])),
    "Tuning": lambda: fw.tune("tanh", 3, 64),
    "LearningCurve": lambda: predicted_learning_curve(network(), X, Y, [1, 2], ridge=0.1),
    "ModelComparison": lambda: compare_models({"a": network(), "b": network("relu")}, X, Y, 0.1),
    "ConvergenceCertificate": lambda: convergence_certificate(fw.kernels(network(), X).ntk),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_pass_through_jit(name):
    """Settings and words stay as they are; every number comes back bit by bit, in an array of JAX."""
    result = RESULTS[name]()
    back = jax.jit(lambda same: same)(result)
    assert type(back) is type(result)
    assert jax.tree.structure(back) == jax.tree.structure(result)
    for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(result), strict=True):
        assert np.array_equal(one, other, equal_nan=True)
        assert one.dtype == np.asarray(other).dtype


def test_a_law_is_an_argument_of_a_compiled_function(law):
    key, y = jax.random.key(0), jnp.ones((2, 1))
    inside = jax.jit(lambda law: (law.expected_loss(y), law.sample(key, 2), law.std))
    for a, b in zip(inside(law), (law.expected_loss(y), law.sample(key, 2), law.std), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert inside._cache_size() == 1
    inside(pickle.loads(pickle.dumps(law)))
    assert inside._cache_size() == 1


def test_a_law_goes_to_another_process(laws):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert_same(pool.map(copy.copy, [laws["order 1, dense"]])[0], laws["order 1, dense"])
