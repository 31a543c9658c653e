"""Samplers of one row's latent position, their tuning, and what tells whether they worked.

Everything here is a pure function on one chain of one row, with a position of shape `(dim,)`;
`vmap` over chains and rows is the caller's business. An algorithm returns `(state, info)`: state
is what must be carried on, info what may be thrown away.
"""
