"""Neural networks as tutorials write them: nested lists of parameters, unrolled time, a transformer in a page."""

from itertools import pairwise

import numpy as np
import numpy.random as npr

RNG = np.random.default_rng(11)


# ---- a transformer, in picoGPT's style


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps: float = 1e-5):
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.var(x, axis=-1, keepdims=True)
    return g * (x - mean) / np.sqrt(variance + eps) + b


def linear(x, w, b):
    return x @ w + b


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head):
    x = linear(x, **c_attn)
    qkv_heads = list(map(lambda x: np.split(x, n_head, axis=-1), np.split(x, 3, axis=-1)))
    causal_mask = (1 - np.tri(x.shape[0], dtype=x.dtype)) * -1e10
    out_heads = [attention(q, k, v, causal_mask) for q, k, v in zip(*qkv_heads)]  # noqa: B905
    return linear(np.hstack(out_heads), **c_proj)


def transformer_block(x, mlp, attn, ln_1, ln_2, n_head):
    x = x + mha(layer_norm(x, **ln_1), **attn, n_head=n_head)
    return x + ffn(layer_norm(x, **ln_2), **mlp)


def gpt2(inputs, wte, wpe, blocks, ln_f, n_head):
    x = wte[inputs] + wpe[range(len(inputs))]
    for block in blocks:
        x = transformer_block(x, **block, n_head=n_head)
    return layer_norm(x, **ln_f) @ wte.T


TOKENS = [1, 4, 2, 0]


def lm_loss(params):
    x, y = TOKENS[:-1], TOKENS[1:]
    output = softmax(gpt2(x, **params, n_head=2))
    return np.mean(-np.log(output[np.arange(len(output)), y]))


def lm_loss_of_array(params, inputs):
    logits = gpt2(inputs[:-1], n_head=2, **params)
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return -sum(log_probabilities[i, token] for i, token in enumerate(inputs[1:])) / len(inputs)


def gpt_parameters(d=4):
    dense = lambda m, n: {"w": RNG.normal(size=(m, n)) * 0.3, "b": RNG.normal(size=n) * 0.1}
    norm = lambda: {"g": 1 + 0.1 * RNG.normal(size=d), "b": 0.1 * RNG.normal(size=d)}
    block = lambda: {
        "mlp": {"c_fc": dense(d, 2 * d), "c_proj": dense(2 * d, d)},
        "attn": {"c_attn": dense(d, 3 * d), "c_proj": dense(d, d)},
        "ln_1": norm(),
        "ln_2": norm(),
    }
    return {
        "wte": RNG.normal(size=(5, d)),
        "wpe": RNG.normal(size=(6, d)),
        "blocks": [block(), block()],
        "ln_f": norm(),
    }


# ---- networks, in the style of autograd's tutorial


def init_random_params(scale, layer_sizes, rs=npr.RandomState(0)):  # noqa: B008
    return [(scale * rs.randn(m, n), scale * rs.randn(n)) for m, n in pairwise(layer_sizes)]


def neural_net_predict(params, inputs):
    for W, b in params:
        outputs = np.dot(inputs, W) + b
        inputs = np.tanh(outputs)
    return outputs - np.log(np.sum(np.exp(outputs), axis=1, keepdims=True))


def l2_norm(params):
    """Return the squared norm of nested lists, by recursion."""
    if isinstance(params, (list, tuple)):
        return sum(map(l2_norm, params))
    return np.dot(params.ravel(), params.ravel())


def log_posterior(params, inputs, targets, L2_reg):
    log_prior = -L2_reg * l2_norm(params)
    log_lik = np.sum(neural_net_predict(params, inputs) * targets)
    return log_prior + log_lik


def accuracy_beside_loss(params, inputs, targets):
    predictions = neural_net_predict(params, inputs)
    right = np.mean(np.argmax(predictions, axis=1) == np.argmax(targets, axis=1))
    return -np.sum(predictions * targets) / len(inputs) + 0.0 * right


def concat_and_multiply(weights, *args):
    cat_state = np.hstack((*args, np.ones((args[0].shape[0], 1))))
    return np.dot(cat_state, weights)


def rnn_predict(params, inputs):
    def update_rnn(input, hiddens):
        return np.tanh(concat_and_multiply(params["change"], input, hiddens))

    def hiddens_to_output_probs(hiddens):
        output = concat_and_multiply(params["predict"], hiddens)
        return output - np.log(np.sum(np.exp(output), axis=1, keepdims=True))

    num_sequences = inputs.shape[1]
    hiddens = np.repeat(params["init hiddens"], num_sequences, axis=0)
    output = [hiddens_to_output_probs(hiddens)]
    for input in inputs:
        hiddens = update_rnn(input, hiddens)
        output.append(hiddens_to_output_probs(hiddens))
    return output


def rnn_log_likelihood(params, inputs, targets):
    logprobs = rnn_predict(params, inputs)
    loglik = 0.0
    num_time_steps, num_examples, _ = inputs.shape
    for t in range(num_time_steps):
        loglik += np.sum(logprobs[t] * targets[t])
    return loglik / (num_time_steps * num_examples)


class LSTM:
    """Gates by name."""

    gates = ("forget", "ingate", "outgate")

    def __init__(self, hidden):
        self.hidden = hidden

    def __call__(self, params, inputs):
        sigmoid = lambda x: 0.5 * (np.tanh(x) + 1.0)
        h, c = np.zeros(self.hidden), np.zeros(self.hidden)
        total = 0.0
        for x in inputs:
            state = np.concatenate([x, h, [1.0]])
            forget, ingate, outgate = (sigmoid(state @ params[gate]) for gate in self.gates)
            c = forget * c + ingate * np.tanh(state @ params["change"])
            h = outgate * np.tanh(c)
            total += h.sum()
        return total


# ---- variational inference


def diag_gaussian_log_density(x, mu, log_std):
    return np.sum(-0.5 * np.log(2 * np.pi) - log_std - 0.5 * (x - mu) ** 2 * np.exp(-2 * log_std), axis=-1)


def unpack_gaussian_params(params):
    D = np.shape(params)[-1] // 2
    return params[:, :D], params[:, D:]


def bernoulli_log_density(targets, unnormalized_logprobs):
    label_probabilities = -np.logaddexp(0, -unnormalized_logprobs * (2 * targets - 1))
    return np.sum(label_probabilities, axis=-1)


def vae_lower_bound(gen_params, rec_params, data, rs):
    q_means, q_log_stds = unpack_gaussian_params(neural_net_predict(rec_params, data))
    latents = rs.randn(*np.shape(q_means)) * np.exp(q_log_stds) + q_means
    q_latents = diag_gaussian_log_density(latents, q_means, q_log_stds)
    p_latents = diag_gaussian_log_density(latents, 0, 0)
    likelihood = bernoulli_log_density(data, neural_net_predict(gen_params, latents))
    return np.mean(p_latents + likelihood - q_latents)


BINARY = (RNG.random((8, 5)) > 0.5).astype(float)


def vae_objective(combined_params, step):
    """A batch that the step chooses, seeded noise."""
    gen_params, rec_params = combined_params
    start = (step % 4) * 2
    data = BINARY[start : start + 2]
    return -vae_lower_bound(gen_params, rec_params, data, npr.RandomState(0))


def shapes_and_sizes(layer_sizes):
    shapes = list(pairwise(layer_sizes))
    return shapes, sum((m + 1) * n for m, n in shapes)


def make_nn_funs(layer_sizes, noise_variance=0.01):
    """A Bayesian network: many samples of flat weights at once."""
    shapes, num_weights = shapes_and_sizes(layer_sizes)

    def unpack_layers(weights):
        num_weight_sets = len(weights)
        for m, n in shapes:
            yield (
                weights[:, : m * n].reshape((num_weight_sets, m, n)),
                weights[:, m * n : m * n + n].reshape((num_weight_sets, 1, n)),
            )
            weights = weights[:, (m + 1) * n :]

    def predictions(weights, inputs):
        inputs = np.expand_dims(inputs, 0)
        for W, b in unpack_layers(weights):
            outputs = np.einsum("mnd,mdo->mno", inputs, W) + b
            inputs = np.tanh(outputs)
        return outputs

    def logprob(weights, inputs, targets):
        log_prior = -0.5 * np.sum(weights**2, axis=1)
        log_lik = -np.sum((predictions(weights, inputs) - targets) ** 2, axis=1)[:, 0] / noise_variance
        return np.mean(log_prior + log_lik)

    return num_weights, logprob


NUM_WEIGHTS, bayesian_logprob = make_nn_funs([1, 3, 1])


def conv_net(params, images):
    """Convolution by windows, pooling by reshape."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (2, 2), axis=(1, 2))
    features = np.maximum(np.tensordot(windows, params["filters"], axes=((3, 4), (1, 2))), 0.0)
    n, h, w, c = features.shape
    pooled = np.max(features.reshape((n, h // 2, 2, w // 2, 2, c)), axis=(2, 4))
    return np.mean(np.square(np.dot(pooled.reshape(n, -1), params["out"])))


NET = init_random_params(0.5, [3, 4, 2])
INPUTS, TARGETS = RNG.normal(size=(5, 3)), np.eye(2)[[0, 1, 1, 0, 1]]
RECURRENT = {
    "init hiddens": RNG.normal(size=(1, 3)),
    "change": RNG.normal(size=(2 + 3 + 1, 3)),
    "predict": RNG.normal(size=(3 + 1, 2)),
}
SEQUENCES = RNG.normal(size=(4, 2, 2))
VAE = init_random_params(0.3, [2, 3, 5]), init_random_params(0.3, [5, 3, 4])
GATES = {name: RNG.normal(size=(2 + 3 + 1, 3)) for name in (*LSTM.gates, "change")}
GPT = gpt_parameters()

PROGRAMS = {
    "GPT": (lm_loss, (GPT,)),
    "GPT, tokens in an array": (lm_loss_of_array, (GPT, np.array(TOKENS))),
    "network": (log_posterior, (NET, INPUTS, TARGETS, 0.1)),
    "accuracy": (accuracy_beside_loss, (NET, INPUTS, TARGETS)),
    "RNN": (rnn_log_likelihood, (RECURRENT, SEQUENCES, SEQUENCES)),
    "LSTM": (LSTM(3), (GATES, SEQUENCES[:, 0])),
    "VAE": (vae_objective, (VAE, 1)),
    "Bayesian network": (bayesian_logprob, (0.3 * RNG.normal(size=(2, NUM_WEIGHTS)), INPUTS[:, :1], INPUTS[:, 1:2])),
    "convolution": (
        conv_net,
        ({"filters": RNG.normal(size=(2, 2, 2)), "out": RNG.normal(size=(8, 2))}, RNG.normal(size=(2, 5, 5))),
    ),
}
