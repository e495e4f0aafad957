# must: subprocess fails with an error at once
# control: breach: plain python reads the output of id
import subprocess, sys
for command in (['id'], [sys.executable, '-c', 'print(1)'], 'echo $HOME'):
    try:
        done = subprocess.run(command, shell=isinstance(command, str), capture_output=True, timeout=5)
        if done.returncode == 0:
            print('BREACH ran', done.stdout)
    except (OSError, subprocess.SubprocessError) as error:
        print(type(error).__name__)
