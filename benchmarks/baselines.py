"""What each baseline costs to train: beside FNODE, beside eager PyTorch, and by the way its gradient is found.

    python benchmarks/baselines.py [--json]

Seconds per epoch over the same 300 samples with the paper's networks, float32, one core. Rows `..._equal_epochs` and
`..._paper_epochs` set FNODE ("ours") beside another model ("peer") for as many epochs and for those the paper's tables
print; `..._eager` set our training of a model beside the same model in eager PyTorch, microseconds per step at batch 1;
`adjoint_...` set backpropagation through the steps of an MBD-NODE window beside diffrax's adjoints.
"""

import math
import statistics
import sys
import tempfile

import equinox as eqx
import jax
import numpy as np
from _bench import interleaved, one_core, result, show

from fnode.methods import METHODS
from fnode.model import cast, untrained
from fnode.preparation import labelled, prepare, resolved
from fnode.training import Adam, fit
from fnode.training.compilation import LONG

try:
    import torch
except ModuleNotFoundError:
    sys.exit("this benchmark compares with PyTorch: pip install 'fnode[peers]'")

CHAIN, OSCILLATOR = "triple_mass_spring_damper", "mass_spring"
COMPARED = {"mbd_node": CHAIN, "lstm": CHAIN, "fcnn": CHAIN, "hnn": OSCILLATOR, "lnn": OSCILLATOR}
ADJOINTS = ("direct", "recursive_checkpoint", "backsolve")
WINDOW, PEER_STEPS, REPEATS, DT = 16, 60, 5, 0.01


class Training:
    """One of our models by its recipe; each call trains some epochs and notes the seconds of one.

    By default as many epochs as make a training long, so that it is compiled to run fast, as a real one is.
    """

    def __init__(self, model: str, system: str, *, epochs: int | None = None, **settings):
        config = resolved({"system": system, "model": model, **settings}, "paper", system)
        self.config, (prepared,), method = config, prepare(config), METHODS[model]
        known = labelled(prepared.recordings, prepared.labels, config.labels)
        samples = method.samples(config, prepared.recordings, known)
        self.count = jax.tree.leaves(samples)[0].shape[0]
        keys = jax.random.split(jax.random.key(0), 1)
        columns = prepared.recordings[0].truth.columns
        models = eqx.filter_vmap(lambda key: untrained(config, config.network, columns, key, known))(keys)
        self.arguments = (models, method.loss(config), cast(samples, "float32"), Adam())
        batch = self.count if config.training.batch == "all" else config.training.batch
        self.epochs = epochs or math.ceil(LONG / math.ceil(self.count / batch))
        self.options = {"epochs": self.epochs, "batch": batch, "keys": keys}
        self.seconds: list[float] = []

    def __call__(self):
        self.seconds.append(fit(*self.arguments, **self.options).seconds_train / self.epochs)

    @property
    def epoch(self) -> float:
        """Median seconds of an epoch, the first training left out."""
        return statistics.median(self.seconds[1:])

    @property
    def step(self) -> float:
        return self.epoch / self.count


def main():
    one_core()
    torch.set_num_threads(1)
    jax.config.update("jax_enable_x64", True)
    # `fit` compiles anew on every call; its clock leaves that out, the cache spares the wait.
    jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    fields = {system: Training("fnode", system) for system in (CHAIN, OSCILLATOR)}
    baselines = {model: Training(model, system) for model, system in COMPARED.items()}
    through = {"model": "mbd_node", "system": CHAIN, "epochs": 1}  # through windows: all alike, and slow
    adjoints = {name: Training(**through, windows={"window": WINDOW, "adjoint": name}) for name in ADJOINTS}
    steps = Training(**through, windows={"window": WINDOW})
    peers = {"mbd_node": MBDNode(), "lstm": Recurrent()}
    workers = [*fields.values(), *baselines.values(), steps, *adjoints.values(), *peers.values()]
    for worker in workers:
        worker()  # warm up
    seconds = dict(zip(workers, interleaved(*workers, repeats=REPEATS), strict=True))
    results = {}
    for model, training in baselines.items():
        field = fields[COMPARED[model]]
        results[f"{model}_equal_epochs"] = result(field.epoch, training.epoch, "s")
        whole = (t.epoch * t.config.training.epochs for t in (field, training))
        results[f"{model}_paper_epochs"] = result(*whole, "s")
    for model, peer in peers.items():
        ours, theirs = 1e6 * baselines[model].step, 1e6 * seconds[peer] / PEER_STEPS
        results[f"{model}_eager"] = result(ours, theirs, "us")
    for name, training in adjoints.items():
        results[f"adjoint_{name}"] = result(1e6 * steps.step, 1e6 * training.step, "us")
    show(__doc__.split("\n\n")[0], results, [f"adjoints: windows of {WINDOW} steps, microseconds per window"])


class Peer:
    """A model as the paper's scripts train it: one eager PyTorch call after another, batch 1."""

    def __init__(self, network, data):
        torch.manual_seed(0)
        self.network, self.data = network, torch.from_numpy(np.asarray(data, np.float32))
        self.optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)

    def __call__(self):
        for i in torch.randperm(len(self.data) - 20)[:PEER_STEPS]:
            loss = self.loss(int(i))
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()


def training_states():
    (prepared,) = prepare(resolved({"system": CHAIN}, "paper", CHAIN))
    return prepared.recordings[0].observed.states


class MBDNode(Peer):
    """One RK4 step inside the loss."""

    def __init__(self):
        tanh, linear = torch.nn.Tanh, torch.nn.Linear
        super().__init__(
            torch.nn.Sequential(linear(6, 256), tanh(), linear(256, 256), tanh(), linear(256, 3)), training_states()
        )

    def rate(self, z):
        return torch.cat([z[..., 3:], self.network(z)], dim=-1)

    def loss(self, i):
        z = self.data[i : i + 1]
        k1 = self.rate(z)
        k2 = self.rate(z + DT / 2 * k1)
        k3 = self.rate(z + DT / 2 * k2)
        k4 = self.rate(z + DT * k3)
        return torch.nn.functional.mse_loss(z + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4), self.data[i + 1 : i + 2])


class Recurrent(Peer):
    """PyTorch's own LSTM layers on a window of 16, and a linear map."""

    def __init__(self):
        layers = torch.nn.LSTM(6, 256, num_layers=2, batch_first=True)
        super().__init__(torch.nn.ModuleDict({"layers": layers, "readout": torch.nn.Linear(256, 6)}), training_states())

    def loss(self, i):
        said, _ = self.network["layers"](self.data[None, i : i + 16])
        return torch.nn.functional.mse_loss(self.network["readout"](said[:, -1]), self.data[i + 16 : i + 17])


if __name__ == "__main__":
    main()
