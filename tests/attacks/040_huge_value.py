# must: the text of a last expression is cut like output
# control: pool: a naive worker sends all of it
# bounded: 70000
['wide'] * 1_000_000
