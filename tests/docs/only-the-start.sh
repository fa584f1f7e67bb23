# A program that reads its input and then computes, here for a second.
echo "n = 3" >input.nml
printf "#!/bin/sh\nread -r line <\"\$1\"\nsleep 1\n" >app
chmod +x app
