"""The boxes of a data set in a file: `python scripts/make_proposals.py data=voc_action proposals=people output=people.npz`."""

from lvmdc.cli.proposals import main

if __name__ == "__main__":
    main()
