"""The convolutional networks of the published code."""

from hhvaem.networks import Pictures, Stage

# Both of MNIST and of Fashion-MNIST.
MNIST = Pictures((28, 28, 1), (Stage(16, 5, 2, 2), Stage(32, 5, 2, 2), Stage(32, 5, 2, 2)))
# There normalised by batches, which in training also was so inside of chains; here by images.
CELEBA = Pictures(
    (64, 64, 3),
    (*(Stage(channels, 4, 2, 1) for channels in (32, 32, 64, 64)), Stage(512, 4, 1, 0)),
    normalised=True,
)
