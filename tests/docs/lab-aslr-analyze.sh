numbers() {
    for job in 1 2 3; do
        for rank in {0..15}; do
            echo "CT: $rank 0.0101 0.0103 0.010$((rank % 5 + $1))0 0.0001 :"
        done
    done
}
numbers 1 >on.log
numbers 1 >off.log
mkdir monday tuesday
numbers 1 >monday/a.log
numbers 1 >tuesday/a.log
becalm lab aslr campaign -o campaign --blocks 2 --nbStep 2 --nbRepeat 1 --nbValue 10 >/dev/null
