"""Subjects: their grammar, and five structures that find which of many patterns match one.

    grammar      what a subject and a pattern are, whether one matches, whether two patterns meet
    matcher      what all five structures can do
    naive        a map from patterns to subscribers, looked at from end to end
    bitmaps      a bitmap for each known subject; a bitmap for each token at each position
    trie         a tree of tokens
    persistent   a tree of tokens that never changes: a change makes a new root

The room is pure, and what a structure returns depends on the calls alone: subscribers in rising order.
docs/matching.md says how each works, what it costs and when to use which.
"""
