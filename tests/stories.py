"""Which tests in processes (page, commands, faults) tell of which room: no import leads from them to it.

A file of the studio has the stories of every key that its path begins with; `tests/test_house.py` proves that
each room has one and that all of them are there.
"""

ALWAYS = ("tests/test_architecture.py", "tests/test_house.py")
"""Style, types, the shape of the house: a matter of seconds."""
DOCUMENTS = ("tests/test_readme.py",)
STORIES = {
    "app.py": "app/test_page app/test_space",
    "assets/": "app/test_page app/test_space browser/test_tabs",
    "assets/arrow_keys": "browser/test_accessibility",
    "assets/come_back": "browser/test_come_back",
    "assets/copied": "browser/test_memory",
    "assets/explorer": "browser/test_tabs",
    "assets/gradio_names": "browser/test_tabs",
    "assets/demo": "app/test_training_command browser/test_story browser/test_transcribe",
    "assets/microphone": "browser/test_live browser/test_data browser/test_transcribe",
    "assets/one_stream": "browser/test_quick_hands browser/test_train",
    "assets/other_files": "browser/test_transcribe",
    "assets/page_language": "browser/test_tabs",
    "assets/quick_hands": "browser/test_quick_hands browser/test_measured",
    "assets/refused": "browser/test_refused",
    "assets/studio": "browser/test_accessibility",
    "assets/whisper_normalizer": "unit/evaluation/test_normalize",
    "assets/whisper_studio": "test_readme",
    "assets/transcript": "browser/test_transcribe",
    "assets/unfolded": "browser/test_train",
    "studio/__": "app/test_command_line app/test_installed",
    "studio/cli": "app/test_command_line app/test_training_command golden/test_interfaces "
    "golden/test_commands",
    "studio/dataset": "app/test_command_line browser/test_data browser/test_tabs app/test_training_command "
    "faults/test_spoiled_files golden/test_commands",
    "studio/doctor": "app/test_command_line app/test_page browser/test_accessibility golden/test_commands",
    "studio/errors": "app/test_command_line app/test_page browser/test_tabs",
    "studio/evaluation": "app/test_page browser/test_tabs browser/test_transcribe app/test_training_command "
    "golden/test_commands",
    "studio/files": "app/test_command_line faults/test_workers faults/test_studio_killed "
    "faults/test_full_disk",
    "studio/transcription": "app/test_page browser/test_transcribe browser/test_live app/test_extended "
    "golden/test_transcripts",
    "studio/transcription/": "browser/test_beside_a_run app/test_real_speech",
    "studio/transcription/loaded_export": "browser/test_compared",
    "studio/runs": "faults/test_workers faults/test_studio_killed browser/test_train golden/test_home",
    "studio/runs/": "browser/test_beside_a_run app/test_training_command",
    "studio/runs/probe": "browser/test_measured",
    "studio/lazy_imports": "app/test_command_line unit/test_lazy_imports",
    "studio/chinese": "unit/test_chinese unit/transcription/test_chinese_script",
    "studio/patience": "unit/test_patience",
    "studio/watching": "unit/ui/shared/test_tasks browser/test_transcribe",
    "studio/process_exit": "app/test_command_line faults/test_workers",
    "studio/memory": "app/test_command_line app/test_page browser/test_memory browser/test_measured "
    "golden/test_memory golden/test_commands",
    "studio/options": "app/test_training_command app/test_command_line browser/test_train "
    "golden/test_interfaces",
    "studio/registry": "app/test_command_line app/test_page browser/test_tabs golden/test_home "
    "golden/test_commands",
    "studio/messages": "app/test_command_line browser/test_tabs browser/test_train",
    "studio/methods": "unit/training/test_adapters app/test_training_command browser/test_memory "
    "faults/test_workers app/test_extended",
    "studio/publishing": "app/test_training_command app/test_owner browser/test_tabs app/test_extended "
    "golden/test_interfaces",
    "studio/reports": "browser/test_data browser/test_compared golden/test_commands",
    "studio/actions": "app/test_command_line browser/test_memory browser/test_data golden/test_commands",
    "studio/actions/forms": "browser/test_compared",
    "studio/actions/p": "browser/test_train",
    "studio/serving": "app/test_endpoint golden/test_interfaces app/test_container",
    "studio/serving/gate": "browser/test_login app/test_space",
    "studio/serving/login": "browser/test_login",
    "studio/services": "app/test_page faults/test_studio_killed browser/test_beside_a_run",
    "studio/room": "app/test_space app/test_owner",
    "studio/settings": "app/test_command_line app/test_page app/test_space app/test_owner",
    "studio/training": "app/test_training_command browser/test_story faults/test_workers "
    "golden/test_home golden/test_interfaces",
    "studio/training/": "faults/test_processes faults/test_two_machines faults/test_killed_while_saving",
    "studio/ui": "app/test_page browser/test_tabs golden/test_interfaces",
    "studio/ui/": "browser/test_in_view",
    "studio/ui/api": "app/test_mcp faults/test_any_values",
    "studio/ui/come_back": "browser/test_come_back",
    "studio/locales": "browser/test_memory browser/test_train browser/test_transcribe browser/test_live",
    "studio/ui/space": "app/test_space app/test_owner",
    "studio/ui/evaluate": "browser/test_compared",
    "studio/ui/models": "browser/test_compared",
    "studio/ui/memory": "browser/test_memory browser/test_measured browser/test_refused",
    "studio/ui/serve": "app/test_space app/test_mcp",
    "studio/ui/shared/access": "app/test_space app/test_owner",
    "studio/ui/shared/charts": "browser/test_train",
    "studio/ui/shared/errors": "browser/test_refused",
    "studio/ui/shared/forms": "browser/test_refused browser/test_train",
    "studio/ui/shared/run_": "browser/test_train browser/test_measured",
    "studio/ui/shared/search_options": "browser/test_transcribe",
    "studio/ui/shared/tasks": "browser/test_quick_hands browser/test_transcribe browser/test_tabs",
    "studio/serving/cookies": "app/test_owner browser/test_login",
    "studio/ui/shared/transcript_views": "browser/test_transcribe",
    "studio/ui/shared/visitors": "app/test_space app/test_owner",
    "studio/ui/shared/theme": "browser/test_accessibility",
    "studio/ui/train": "browser/test_train browser/test_data browser/test_measured browser/test_beside_a_run",
    "studio/ui/transcribe": "browser/test_transcribe browser/test_beside_a_run",
    "studio/ui/transcribe/results": "browser/test_come_back",
    "studio/ui/transcribe/live": "browser/test_live",
    "studio/ui/transcribe/spoken_sound": "browser/test_live",
    "studio/translation": "app/test_command_line browser/test_tabs",
    "studio/units": "app/test_command_line browser/test_memory",
    "tests/golden": "golden/test_commands golden/test_home golden/test_interfaces golden/test_memory "
    "golden/test_transcripts",
    "studio/whisper": "app/test_training_command app/test_page",
}


def story_of(path: str) -> list[str]:
    """The test files that tell of a file of the application; none if it has no room."""
    told = " ".join(story for key, story in STORIES.items() if path.startswith(key)).split()
    return list(dict.fromkeys(f"tests/{name}.py" for name in told))
