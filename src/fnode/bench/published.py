"""What the paper prints: its figures to compare with, and nothing else."""

# Mean squared errors, Table 13.
ERRORS = {
    "mass_spring_damper": {"fnode": 7.6e-5, "mbd_node": 1.4e-3, "lstm": 1.5e-2, "fcnn": 1.6e-1},
    "triple_mass_spring_damper": {"fnode": 6.1e-3, "mbd_node": 6.8e-3, "lstm": 2.5e-1, "fcnn": 9.0e-2},
    "double_pendulum": {"fnode": 1.4e-1, "mbd_node": 2.3e-1, "lstm": 7.6e-1, "fcnn": 1.9},
    "slider_crank": {"fnode": 1.7e-1, "mbd_node": 8.7e-1, "lstm": 1.4, "fcnn": 3.1},
    "cart_pole": {"fnode": 6.7e-4, "mbd_node": 1.1e-3, "lstm": 1.6e-1, "fcnn": 3.5e-1},
}

# Seconds of training on a GPU, Table 12.
SECONDS = {
    "mass_spring_damper": {"fnode": 112.46, "mbd_node": 201.90, "lstm": 171.99, "fcnn": 103.28},
    "triple_mass_spring_damper": {"fnode": 108.23, "mbd_node": 244.80, "lstm": 172.05, "fcnn": 102.78},
    "double_pendulum": {"fnode": 89.33, "mbd_node": 212.09, "lstm": 148.41, "fcnn": 88.04},
    "slider_crank": {"fnode": 565.01, "mbd_node": 1185.64, "lstm": 813.11, "fcnn": 453.50},
    "cart_pole": {"fnode": 59.46, "mbd_node": 144.51, "lstm": 96.08, "fcnn": 59.36},
}

# Error of the acceleration by number of hidden layers, Table 7.
DEPTHS = {2: 3.70e-2, 3: 1.72e-2, 4: 1.47e-2, 5: 1.44e-2, 6: 1.41e-2}

# Hyper-parameters, Tables 2 to 6 and 8: hidden layers, nodes, epochs, rate, decay, activations, optimiser.
COMMON = {
    "layers": 2,
    "nodes": 256,
    "epochs": 450,
    "rate": 1e-3,
    "decay": 0.98,
    "activations": "tanh",
    "optimiser": "Adam",
}
LSTM = {"epochs": 300, "activations": "sigmoid, tanh"}
CRANK = {"layers": 3}
HYPERPARAMETERS = {
    ("Table 2", "mass_spring"): {"fnode": {}, "hnn": {"epochs": 30_000}, "lnn": {"epochs": 400}},
    ("Table 3", "mass_spring_damper"): {"fnode": {}, "mbd_node": {"epochs": 300}, "lstm": LSTM, "fcnn": {}},
    ("Table 4", "triple_mass_spring_damper"): {"fnode": {}, "mbd_node": {"epochs": 300}, "lstm": LSTM, "fcnn": {}},
    ("Table 5", "double_pendulum"): {
        "fnode": {"rate": 3e-3},
        "mbd_node": {"epochs": 300},
        "lstm": LSTM,
        "fcnn": {"rate": 3e-3},
    },
    ("Table 6", "slider_crank"): {
        "fnode": {**CRANK, "rate": 5e-4, "decay": 0.99},
        "mbd_node": {**CRANK, "epochs": 300},
        "lstm": {**CRANK, **LSTM},
        "fcnn": CRANK,
    },
    ("Table 8", "cart_pole"): {
        "fnode": {},
        "mbd_node": {"epochs": 400},
        "lstm": {"epochs": 300, "activations": "tanh"},
        "fcnn": {},
    },
}

# The vehicle's hyper-parameters (Table 11).
VEHICLE_HYPERPARAMETERS = {"fnode": {"layers": 6, "epochs": 300, "rate": 1e-4, "optimiser": "AdamW"}}
