"""The papers' equations: pure functions of numbers, standard library only; one file a paper."""
