"""Lists as speech corpora and other tools write them, a module each; `known` tells which one it is."""
