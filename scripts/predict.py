"""Find the objects in custom images: `python scripts/predict.py ckpt_path=… input=photos/`."""

from lvmdc.cli.evaluate import predict_main

if __name__ == "__main__":
    predict_main()
