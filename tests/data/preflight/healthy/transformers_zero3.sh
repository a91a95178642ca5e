#!/bin/bash
# A fine-tuning with DeepSpeed's launcher and a configuration that the script writes; the trainer fills in "auto".
set -euo pipefail
OUTPUT_DIR=${OUTPUT_DIR:-out}
cat > ds_zero3.json <<'JSON'
{
    "bf16": {"enabled": "auto"},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": true},
        "offload_param": {"device": "cpu", "pin_memory": true},
        "overlap_comm": true,
        "stage3_gather_16bit_weights_on_model_save": true
    },
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto"
}
JSON
deepspeed --num_gpus=8 --master_port 29501 run_clm.py \
    --deepspeed ds_zero3.json \
    --model_name_or_path "$MODEL" \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 16 \
    --bf16 True \
    --learning_rate 2e-5 \
    --output_dir "$OUTPUT_DIR" "$@"
