# must: no home, no account data, no listing of folders outside the interpreter's own
# control: breach: plain python lists and reads them
import os, pwd
home = os.path.expanduser('~')
for path in (home, '/home', '/root', '/', '/tmp', '/var', '/etc', '@CAN@', '@CAN@/keep', '/work', '/opt'):
    try:
        names = os.listdir(path)
        print('BREACH list' if names else 'empty', path, len(names))
    except OSError as error:
        print(path, type(error).__name__)
for path in ('/etc/shadow', '/etc/passwd', '/etc/hostname', '/etc/machine-id', '/etc/ssh/ssh_host_rsa_key', '/root/.bashrc', '/root/.profile', home + '/.bash_history', home + '/.netrc', home + '/.ssh/id_rsa', home + '/.cache/huggingface/token', home + '/.gitconfig'):
    try:
        with open(path, 'rb') as file:
            print('BREACH read', path, len(file.read()))
    except OSError as error:
        print(path, type(error).__name__)
