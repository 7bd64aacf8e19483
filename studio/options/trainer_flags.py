"""Arguments of `Seq2SeqTrainingArguments` that are no options here: a sentence for each.

Those with a meaning are fields of `TrainingConfig`, aliases of one, or switches and translations of
`studio.options.dialects`.
"""

from studio.options.foreign import Foreign, not_off, refused, switch, value

RESUME = (
    "a run of the studio goes on with --resume and its run_name, or with python -m studio runs resume ID; a "
    "finished adapter is trained further with --adapter FOLDER"
)
HUB = "the finished model stays on this machine, until python -m studio publish MODEL OWNER/NAME sends it"
_ALWAYS = "this is always so"
_NEVER = "the studio decides it"
_LENGTHS = "clips are padded to 30 seconds, or sorted by length with short_audio"
_SHARDING = "set num_processes and sharding"
_PER_DEVICE = "each process has batches of its own, of per_device_train_batch_size"
_COUNTED = "evaluation counts the errors of each batch and keeps no scores"
_LOG = "what a run says is in its log, which its page and python -m studio runs log ID show"
_TRACKIO = "trackio keeps the run on this machine"

TRAINER: dict[str, Foreign] = {
    # published after training
    "push_to_hub": switch(HUB),
    "hub_model_id": value(HUB),
    "hub_strategy": value(HUB, "every_save"),
    "hub_token": value(HUB),
    "hub_private_repo": switch(HUB),
    "hub_always_push": switch(HUB),
    "hub_revision": value(HUB),
    # several processes
    "deepspeed": value(_SHARDING),
    "fsdp": value(_SHARDING),
    "fsdp_config": value(_SHARDING),
    "parallelism_config": value(_SHARDING),
    "accelerator_config": value(_PER_DEVICE),
    "ddp_find_unused_parameters": switch(_NEVER),
    "ddp_bucket_cap_mb": value(_NEVER),
    "ddp_broadcast_buffers": switch(_NEVER, usual=None),
    "ddp_static_graph": switch(_NEVER),
    "ddp_backend": value("nccl is taken where there are GPUs, else gloo", "nccl"),
    "local_rank": value("set num_processes; the launcher numbers them", "-1", "0"),
    "average_tokens_across_devices": switch("the loss is the mean over all tokens of a step", usual=True),
    "log_on_each_node": switch("machine 0 keeps the log", usual=None),
    "save_on_each_node": switch("machine 0 keeps the model"),
    # optimizer and arithmetic
    "optim_args": refused("give adam_beta1, adam_beta2, adam_epsilon and weight_decay by themselves"),
    "optim_target_modules": refused(
        "GaLore and APOLLO project gradients, and all gradients are whole here: choose method lora for "
        "little memory"
    ),
    "neftune_noise_alpha": refused("noise goes to the sound, with noise_prob and apply_spec_augment", "0"),
    "bf16_full_eval": switch("evaluation computes as training does"),
    "fp16_full_eval": switch("evaluation computes as training does"),
    "tf32": switch(_NEVER, usual=None),
    "use_liger_kernel": switch("loss_chunk_size keeps the logits small, with the same loss"),
    "liger_kernel_config": value("loss_chunk_size keeps the logits small, with the same loss"),
    "use_cache": switch("keys are kept where text is written, and nowhere else"),
    "torch_empty_cache_steps": value("memory that a step leaves is used by the next"),
    "auto_find_batch_size": switch(
        "a run that is out of memory always tries again with a smaller batch", usual=None
    ),
    "full_determinism": switch("seed decides the order, dropout and new weights; sums may still be rounded"),
    "data_seed": value("seed decides the order, too"),
    # logging
    "logging_dir": value("set the environment variable TENSORBOARD_LOGGING_DIR instead"),
    "logging_strategy": value("set logging_steps", "steps"),
    "logging_first_step": switch("set logging_steps"),
    "logging_nan_inf_filter": switch("a loss that is no number ends the run", usual=None),
    "include_num_input_tokens_seen": value("clips are counted, not tokens", "no"),
    "log_level": value(_LOG, "passive"),
    "log_level_replica": value(_LOG, "warning"),
    "debug": value(_LOG),
    "skip_memory_metrics": switch("the peak of memory is always measured", usual=None),
    "disable_tqdm": switch("progress goes into the run's events"),
    "trackio_space_id": value(_TRACKIO),
    "trackio_bucket_id": value(_TRACKIO),
    "trackio_static_space_id": value(_TRACKIO),
    # evaluation
    "do_train": not_off("python -m studio evaluate measures a model without training"),
    "do_eval": switch("set eval_strategy"),
    "do_predict": switch("the finished model is tested with python -m studio evaluate"),
    "predict_with_generate": switch("evaluation always generates text", usual=None),
    "prediction_loss_only": refused(
        "the best checkpoint is chosen by the error rate of texts; eval_strategy no writes none and keeps "
        "the last",
        is_switch=True,
    ),
    "load_best_model_at_end": switch(
        "the best checkpoint is always the one that is kept; eval_strategy no keeps the last", usual=None
    ),
    "greater_is_better": switch("error rates are always to be small"),
    "include_for_metrics": value(_COUNTED, "[]"),
    "batch_eval_metrics": switch(_COUNTED),
    "eval_do_concat_batches": switch(_COUNTED, usual=True),
    "eval_use_gather_object": switch(_COUNTED),
    "eval_accumulation_steps": value(_COUNTED),
    "generation_config": value("set generation_max_length and generation_num_beams"),
    # checkpoints
    "resume_from_checkpoint": refused(RESUME),
    "overwrite_output_dir": switch("a folder that the studio did not write is never replaced"),
    "save_safetensors": switch(_ALWAYS, usual=True),
    "save_only_model": switch("checkpoints are what a run is resumed from, and keep the optimizer's states"),
    "enable_jit_checkpoint": switch("a run that is asked to stop always saves a checkpoint", usual=None),
    "ignore_data_skip": switch("a resumed run goes on with the clips that it has not seen"),
    "restore_callback_states_from_checkpoint": switch(_ALWAYS, usual=None),
    # data
    "remove_unused_columns": switch("columns that are not used stay where they are", usual=True),
    "label_names": value(_NEVER, "labels"),
    "dataloader_pin_memory": switch("it is pinned where there is a GPU", usual=True),
    "dataloader_prefetch_factor": value(_NEVER, "2"),
    "dataloader_persistent_workers": switch("each epoch starts them anew, so that a resumed run is the same"),
    "dataloader_multiprocessing_context": value(_NEVER),
    "dataloader_in_order": switch("clips always come in the order of the seed", usual=True),
    "dataloader_drop_last": switch("no clip is dropped"),
    "group_by_length": switch(_LENGTHS),
    "sortish_sampler": switch(_LENGTHS),
    "train_sampling_strategy": value(_LENGTHS, "random"),
    "length_column_name": value(_LENGTHS, "length"),
    "use_cpu": switch("a GPU is used where there is one"),
    "no_cuda": switch("a GPU is used where there is one"),
    # those of transformers 4
    "use_mps_device": switch("an accelerator is used where there is one"),
    "half_precision_backend": value("set precision", "auto"),
    "fp16_backend": value("set precision", "auto"),
    "fp16_opt_level": value("set precision", "o1"),
    "include_inputs_for_metrics": switch(_COUNTED),
    "include_tokens_per_second": switch("clips are counted, not tokens"),
    "jit_mode_eval": switch("torch_compile compiles the model"),
    "use_ipex": switch("torch_compile compiles the model"),
    "torchdynamo": value("torch_compile compiles the model"),
    "split_batches": switch(_PER_DEVICE),
    "dispatch_batches": switch(_PER_DEVICE),
    "past_index": value(_NEVER, "-1"),
    "ray_scope": value(_NEVER, "last"),
    "push_to_hub_model_id": value(HUB),
    "push_to_hub_organization": value(HUB),
    "push_to_hub_token": value(HUB),
}
"""Flag → why it does nothing here, or why a run with it is refused."""
