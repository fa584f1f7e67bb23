environment /shared/env
