"""The table of launchers: a row has the launcher's names, whether it serves, its port and its ranks.

The comment above a row names the source of its command line. `launcher.Launcher` describes the fields; a field of
several words is written as one string. A launcher that a row cannot describe has a class of its own in `shapes`.
"""

from __future__ import annotations

from dkdbg.launchers.bash import BASH
from dkdbg.launchers.launcher import MONITOR, NOTEBOOK, SERVER, TOOL, WORKER, Launcher
from dkdbg.launchers.python import PYTHON
from dkdbg.launchers.shapes import (
    Accelerate,
    AppServer,
    Celery,
    ConsoleScript,
    Dask,
    Django,
    FastAPI,
    Flask,
    Gradio,
    Joblib,
    Jupyter,
    Lightning,
    Litestar,
    Pytest,
    QueueWorker,
    Ray,
    Ros,
    ScriptServer,
    Spreader,
    Uwsgi,
    Vllm,
)

#: The order matters if two launchers match one process: ranks from torchrun and MPI come before those of the
#: surrounding Slurm job.
LAUNCHERS: tuple[Launcher, ...] = (
    # torch/distributed/run.py, get_args_parser().
    Spreader(
        "torchrun", modules="torch.distributed.run torch.distributed.launch torch.distributed.elastic",
        gpu="no fallback", count_options="--nproc_per_node --nproc-per-node",
        value_options="""
            --nnodes --nproc-per-node --nproc_per_node --rdzv-backend --rdzv_backend --rdzv-endpoint
            --rdzv_endpoint --rdzv-id --rdzv_id --rdzv-conf --rdzv_conf --max-restarts --max_restarts
            --monitor-interval --monitor_interval --start-method --start_method --role --log-dir --log_dir -r
            --redirects -t --tee --local-ranks-filter --local_ranks_filter --node-rank --node_rank
            --master-addr --master_addr --master-port --master_port --local-addr --local_addr --logs-specs
            --logs_specs --duplicate-stdout-filters --duplicate-stderr-filters
        """,
        ranks="RANK", local_ranks="LOCAL_RANK", world_sizes="WORLD_SIZE", local_sizes="LOCAL_WORLD_SIZE",
    ),
    # Open MPI, MPICH, Intel MPI, MVAPICH.
    Spreader(
        "mpirun", "mpiexec", programs="mpirun mpiexec orterun mpiexec.hydra", runs_commands=True,
        gpu="always", count_options="-np -n --np -c",
        value_options="""
            -n -np --np -c -N -npernode --npernode -ppn -H -host --host -hosts -hostfile --hostfile
            -machinefile --machinefile -f -x -wdir --wdir -wd -bind-to --bind-to -map-by --map-by -rank-by
            --rank-by -genvlist -envlist -prefix --prefix -output-filename --output-filename -path --path
            -pernode -rf --rankfile
        """,
        ranks="OMPI_COMM_WORLD_RANK PMI_RANK MV2_COMM_WORLD_RANK",
        local_ranks="OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID MV2_COMM_WORLD_LOCAL_RANK",
        world_sizes="OMPI_COMM_WORLD_SIZE PMI_SIZE MV2_COMM_WORLD_SIZE",
        local_sizes="OMPI_COMM_WORLD_LOCAL_SIZE MPI_LOCALNRANKS MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    # horovod/runner/launch.py. Ranks have HOROVOD_RANK over Gloo, MPI's variables over MPI.
    Spreader(
        "horovodrun", modules="horovod.runner.launch", runs_commands=True, count_options="-np --num-proc",
        value_options="""
            -np --num-proc -p --ssh-port -i --ssh-identity-file -H --hosts -hostfile --hostfile
            --start-timeout --output-filename --min-np --max-np --slots-per-host --network-interface
            --fusion-threshold-mb --cycle-time-ms --cache-capacity --timeline-filename --config-file
        """,
        ranks="HOROVOD_RANK", local_ranks="HOROVOD_LOCAL_RANK", world_sizes="HOROVOD_SIZE",
    ),
    # Slurm's `man srun`. The command after it, which runs once per task, is shown in its place.
    Launcher(
        "srun", wraps=True,
        value_options="""
            -n --ntasks -N --nodes -p --partition -c --cpus-per-task -A --account -J --job-name -t --time -w
            --nodelist -x --exclude -o --output -e --error -i --input -D --chdir -G --gpus -C --constraint -q
            --qos -d --dependency -m --distribution --gres --mem --ntasks-per-node --gpus-per-node
            --gpus-per-task --cpu-bind --gpu-bind --jobid --mpi --export --container-image --container-mounts
            --container-workdir --reservation -u -g
        """,
        ranks="SLURM_PROCID", local_ranks="SLURM_LOCALID", world_sizes="SLURM_NTASKS",
        nodes="SLURM_STEP_NUM_NODES SLURM_NNODES",
    ),
    # paddle/distributed/launch.
    Spreader(
        "paddle", programs="fleetrun", modules="paddle.distributed.launch", count_options="--nproc_per_node",
        value_options="""
            --master --rank --log_level --nnodes --nproc_per_node --log_dir --run_mode --job_id --devices
            --gpus --ips --host --servers --trainers --trainer_num --server_num --max_restart
        """,
        ranks="PADDLE_TRAINER_ID", local_ranks="PADDLE_LOCAL_RANK", world_sizes="PADDLE_TRAINERS_NUM",
    ),
    # lightning/fabric/cli.py.
    Lightning(
        "lightning", "fabric", count_options="--devices",
        value_options="""
            --accelerator --strategy --devices --num_nodes --num-nodes --node_rank --node-rank --main_address
            --main-address --main_port --main-port --precision
        """,
        node_ranks="NODE_RANK", first_words="run fabric",
    ),
    # accelerate/commands/launch.py. Ranks have torchrun's variables.
    Accelerate(
        "accelerate", programs="accelerate accelerate-launch",
        modules="accelerate.commands.launch accelerate.commands.accelerate_cli accelerate",
        count_options="--num_processes --num-processes",
        value_options="""
            --config_file --num_processes --num_machines --machine_rank --main_process_ip --main_process_port
            --mixed_precision --dynamo_backend --dynamo_mode --gpu_ids --rdzv_backend --rdzv_conf
            --max_restarts --monitor_interval --num_cpu_threads_per_process --role --tee --log_dir
            --same_network --deepspeed_config_file --zero_stage --fsdp_sharding_strategy
            --gradient_accumulation_steps --gradient_clipping --offload_optimizer_device
            --offload_param_device --zero3_init_flag --zero3_save_16bit_model --deepspeed_hostfile
            --deepspeed_multinode_launcher --fsdp_version --fsdp_auto_wrap_policy --downcast_bf16
        """,
        not_a_module="accelerate",
    ),
    # deepspeed/launcher/runner.py. `launch` runs on each machine; ranks have torchrun's variables.
    Spreader(
        "deepspeed", programs="deepspeed ds",
        modules="deepspeed.launcher.runner deepspeed.launcher.launch deepspeed", gpu="always",
        count_options="--num_gpus --num_accelerators",
        value_options="""
            -H --hostfile -i --include -e --exclude --num_nodes --num_gpus --master_port --master_addr
            --node_rank --launcher --launcher_args --autotuning --bind_core_list --ssh_port --venv_script
        """,
        not_a_module="deepspeed",
    ),
    # composer/cli/launcher.py. Ranks have torchrun's variables.
    Spreader(
        "composer", modules="composer.cli.launcher composer", count_options="-n --nproc",
        value_options="""
            -n --nproc --stdout --stderr --world_size --base_rank --node_rank --master_addr --master_port
        """,
    ),
    # colossalai/cli/launcher. Ranks have torchrun's variables.
    Spreader(
        "colossalai", count_options="--nproc_per_node",
        value_options="""
            -H --host --hostfile --include --exclude --nproc_per_node --num_nodes --master_addr --master_port
            --extra_launch_args --ssh-port
        """,
        first_words="run",
    ),
    # ray/scripts/scripts.py: jobs, the processes of a node, workers that run tasks and actors.
    Ray(
        "ray", role=SERVER, verbs="start", side_ports=(8265,),
        helpers=(
            ("ray/dashboard/", "Ray dashboard"), ("ray/autoscaler/", "Ray autoscaler"),
            ("ray/_private/log_monitor.py", "Ray log monitor"),
            ("ray/_private/runtime_env/agent", "Ray runtime environment agent"),
        ),
        workers=(("ray/_private/workers/default_worker.py", "Ray worker"),),
    ),
    # ray/serve/scripts.py. Other programs are called `serve`, too.
    AppServer(
        "ray-serve", programs="serve", verbs="run",
        value_options="""
            -a --address --app-dir --working-dir --runtime-env --runtime-env-json --route-prefix --name
        """,
        first_words="run",
    ),
    # distributed/cli.
    Dask(
        "dask", programs="dask dask-worker dask-scheduler", role=WORKER, is_program=False, side_ports=(8787,),
    ),
    # loky's workers: the library starts them, no command line does.
    Joblib("joblib", programs="", is_program=False),
    # The pool of compile workers below a program.
    Launcher(
        "torch.compile", programs="", is_program=False,
        helpers=(
            ("torch/_inductor/compile_worker", "torch compile worker"),
            ("torch._inductor.compile_worker", "torch compile worker"),
        ),
    ),
    # uvicorn/main.py. With `--workers` or `--reload` the app runs in a spawned server process.
    AppServer(
        "uvicorn", modules="uvicorn", opened_by="UVICORN_HOST=0.0.0.0",
        value_options="""
            --host --port --uds --fd --reload-dir --reload-include --reload-exclude --reload-delay --workers
            --loop --http --ws --ws-max-size --ws-max-queue --ws-ping-interval --ws-ping-timeout --lifespan
            --interface --env-file --log-config --log-level --forwarded-allow-ips --root-path
            --limit-concurrency --backlog --limit-max-requests --timeout-keep-alive
            --timeout-graceful-shutdown --ssl-keyfile --ssl-certfile --ssl-keyfile-password --ssl-version
            --ssl-cert-reqs --ssl-ca-certs --ssl-ciphers --header --app-dir --h11-max-incomplete-event-size
        """,
        child="uvicorn server process", child_by="spawn", child_options="--workers --reload",
    ),
    # gunicorn/config.py. A module alone means `module:application`. No `opened_by`: its variable would override the
    # address in gunicorn.conf.py.
    AppServer(
        "gunicorn", modules="gunicorn gunicorn.app.wsgiapp", bare_module=True,
        value_options="""
            -c --config -b --bind --backlog -w --workers -k --worker-class --threads --worker-connections
            --max-requests --max-requests-jitter -t --timeout --graceful-timeout --keep-alive --reload-engine
            --reload-extra-file --chdir -e --env -p --pid --worker-tmp-dir -u --user -g --group -m --umask
            --access-logfile --access-logformat --error-logfile --log-file --log-level --logger-class
            --log-config --log-config-json --log-syslog-to --statsd-host -n --name --pythonpath --paste
            --forwarded-allow-ips --keyfile --certfile --ca-certs --ssl-version
        """,
        child="gunicorn worker", child_by="fork",
    ),
    # hypercorn/__main__.py.
    AppServer(
        "hypercorn", modules="hypercorn",
        value_options="""
            -b --bind -w --workers -k --worker-class -c --config --access-logfile --access-log --error-logfile
            --error-log --log-level --log-config --root-path --certfile --keyfile --ca-certs --insecure-bind
            --quic-bind -g --group -u --user -m --umask -p --pid --keep-alive --graceful-timeout
            --max-requests --server-name --websocket-ping-interval
        """,
        child="hypercorn worker", child_by="spawn", child_options="-w --workers --reload",
    ),
    # daphne/cli.py. `-b` is an address without a port.
    AppServer(
        "daphne", modules="daphne", port_options="-p",
        value_options="""
            -p --port -b --bind -u --unix-socket --fd -e --endpoint -v --verbosity -t --http-timeout
            --access-log --log-fmt --ping-interval --ping-timeout --root-path --application-close-timeout
            --websocket_timeout --server-name
        """,
    ),
    # granian/cli.py.
    AppServer(
        "granian", modules="granian",
        value_options="""
            --host --port --uds --interface --http --workers --blocking-threads --runtime-threads
            --runtime-mode --loop --task-impl --backlog --backpressure --log-level --log-config
            --access-log-fmt --ssl-certificate --ssl-keyfile --url-path-prefix --respawn-interval
            --workers-lifetime --workers-kill-timeout --reload-paths --process-name --pid-file --env-files
            --working-dir --static-path-mount
        """,
        child="granian worker", child_by="spawn",
    ),
    # waitress/runner.py. Values follow `=`.
    AppServer(
        "waitress-serve", modules="waitress", port=8080, port_options="--listen",
        value_options="--host --port --listen --threads --url-scheme --url-prefix --app",
    ),
    # uWSGI's options; all of them may stand in an ini file.
    Uwsgi(
        "uwsgi", role=SERVER, port_options="--http --http-socket --socket -s", child="uWSGI worker", child_by="fork",
    ),
    # sanic/cli. It finds the app in a module.
    AppServer(
        "sanic", modules="sanic", bare_module=True, port_options="-p",
        value_options="-H --host -p --port -u --unix -w --workers --cert --key --tls -R --reload-dir",
    ),
    # fastapi_cli/cli.py, discover.py.
    FastAPI(
        "fastapi", modules="fastapi", verbs="run dev",
        discovers="main.py app.py api.py app/main.py app/app.py app/api.py", port=8000,
        value_options="--host --port --workers --root-path --app --reload-dir --entrypoint -e",
        child="fastapi server process", child_by="spawn", child_options="dev --workers --reload",
    ),
    # litestar/cli.
    Litestar(
        "litestar", modules="litestar", verbs="run", discovers="app.py application.py asgi.py", port=8000,
        port_options="-p", opened_by="LITESTAR_HOST=0.0.0.0",
        value_options="--app --app-dir -p --port -H --host --wc --web-concurrency --fd --uds --reload-dir -R",
    ),
    # flask/cli.py. `--debug` runs the app in a second process with the same command line.
    Flask(
        "flask", modules="flask", role=SERVER, verbs="run", discovers="wsgi.py app.py", dotted_app=True,
        opened_by="FLASK_RUN_HOST=0.0.0.0",
        port=5000, port_options="-p", value_options="--app -A -e --env-file -h --host -p --port --cert --key",
        child="flask server process", child_by="again",
    ),
    # django/core/management. `manage.py` is shown as a Python script.
    Django(
        "django", programs="django-admin", modules="django", scripts="manage.py", role=SERVER,
        verbs="runserver runserver_plus rundaphne", port=8000,
        value_options="--settings --pythonpath -v --verbosity", child="manage.py server process",
        child_by="again",
    ),
    # streamlit/web/cli.py.
    ScriptServer(
        "streamlit", modules="streamlit", verbs="run", port=8501,
        value_options="--server.port --server.address --server.headless --logger.level --theme.base",
    ),
    # gradio/cli: `gradio FILE` reloads.
    Gradio("gradio", role=SERVER, port=7860, opened_by="GRADIO_SERVER_NAME=0.0.0.0"),
    # chainlit/cli.
    ScriptServer(
        "chainlit", modules="chainlit", verbs="run", port=8000, port_options="-p",
        opened_by="CHAINLIT_HOST=0.0.0.0",
        value_options="--host --port -p --root-path --ssl-cert --ssl-key",
    ),
    # panel/command/serve.py.
    ScriptServer(
        "panel", modules="panel", verbs="serve", port=5006,
        value_options="""
            --port --address --allow-websocket-origin --prefix --index --num-procs --num-threads --log-level
            --log-file --setup --static-dirs --autoreload --basic-auth
        """,
    ),
    # bokeh/command/subcommands/serve.py.
    ScriptServer(
        "bokeh", modules="bokeh", verbs="serve", port=5006,
        value_options="""
            --port --address --allow-websocket-origin --prefix --index --num-procs --log-level --log-file
            --unix-socket --session-ids
        """,
    ),
    # shiny/_main.py.
    ScriptServer(
        "shiny", modules="shiny", verbs="run", port=8000, port_options="-p",
        value_options="""
            -h --host -p --port --autoreload-port --reload-dir --ws-max-size --log-level -d --app-dir
        """,
    ),
    # solara/__main__.py.
    ScriptServer(
        "solara", modules="solara", verbs="run", port=8765,
        value_options="--host --port --workers --env-file --log-level --theme-variant --root-path",
    ),
    # marimo/_cli.
    ScriptServer(
        "marimo", modules="marimo", verbs="run edit", port=2718, port_options="-p",
        value_options="-p --port --host --proxy --base-url --token-password",
    ),
    # mesop/cli.
    ScriptServer("mesop", port=32123, value_options="--port --host --path"),
    # modal/cli. `modal run` runs a job in Modal's cloud.
    ScriptServer("modal", modules="modal", verbs="serve", value_options="--env -e --name --timeout"),
    # bentoml_cli/serve.py.
    AppServer(
        "bentoml", modules="bentoml", verbs="serve", port=3000, port_options="-p",
        value_options="-p --port --host --api-workers --timeout --backlog --working-dir",
    ),
    # vllm/entrypoints. The program is the library, never the repository.
    Vllm(
        "vllm", modules="vllm.entrypoints.openai.api_server vllm.entrypoints.api_server", role=SERVER,
        is_program=False, port=8000,
    ),
    # celery/bin. Tasks run in a pool of forked processes.
    Celery(
        "celery", modules="celery", verbs="worker beat flower multi", child="celery pool worker",
        child_by="fork",
    ),
    # flower/command.py: the monitor of Celery.
    Launcher("flower", role=MONITOR, is_program=False, port=5555, side_ports=(5555,)),
    # rq/cli.
    QueueWorker(
        "rq", modules="rq", verbs="worker worker-pool scheduler", child="rq work horse", child_by="fork",
    ),
    # dramatiq/cli.py.
    QueueWorker("dramatiq", modules="dramatiq"),
    # arq/cli.py.
    QueueWorker("arq", modules="arq"),
    # taskiq/cli.
    QueueWorker("taskiq", modules="taskiq", verbs="worker scheduler"),
    # faust/cli.
    QueueWorker("faust", modules="faust", verbs="worker"),
    # huey/bin/huey_consumer.py.
    QueueWorker("huey_consumer", programs="huey_consumer huey_consumer.py", modules="huey.bin.huey_consumer"),
    # jupyter_core/command.py, jupyterlab, notebook.
    Jupyter(
        "notebook", programs="jupyter jupyter-lab jupyter-notebook notebook jupyterlab",
        modules="jupyter notebook jupyterlab", role=NOTEBOOK, port=8888, side_ports=(8888,),
        workers=(("ipykernel_launcher", "notebook kernel"),),
    ),
    # tensorboard/main.py.
    Launcher(
        "tensorboard", modules="tensorboard.main tensorboard", role=MONITOR, is_program=False, port=6006,
        side_ports=(6006,),
    ),
    # mlflow/cli.py. `mlflow run` is a job.
    Launcher(
        "mlflow", modules="mlflow", role=MONITOR, verbs="server ui serve", is_program=False, port=5000,
        port_options="-p", side_ports=(5000,),
    ),
    # ROS 1 and 2.
    Ros("roslaunch", "rosrun", "ros2"),
    # pytest and the workers of pytest-xdist. Tests are not the program of a repository.
    Pytest("pytest", programs="pytest py.test", modules="pytest", role=TOOL, is_program=False),
    BASH,
    PYTHON,
    # A console script that the repository declares; callers of `lines.command_lines` pass the names.
    ConsoleScript("console-script", programs=""),
)  # fmt: skip
