# bash completion of intact; made by 'intact help --completion'
_intact() {
  local verb=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W 'inspect quantize train run eval compare bench export ops kernels quantizers observers fake_quantizers optimizers schedulers networks passes formats help --help --version' -- "$current"))
    return
  fi
  case $verb in
    inspect) words='--stage --data --samples --mean --std ' ;;
    quantize) words='--data --labels -o --samples --batch --mean --std --quantizer --observer --weight-observer --activations --weights --io --keep-float --no-equalize --no-bias-correction ' ;;
    train) words='--data --labels -o --from-scratch --weights --test-data --test-labels --float --samples --batch --replicas --mean --std --epochs --lr --optimizer --momentum --weight-decay --schedule --schedule-by --clip-norm --label-smoothing --augment --distill --distill-weight --distill-temperature --bits-weights --bits-activations --method --activations --simulate-integers --per-tensor --keep-float --no-equalize --learn-scales-at --fake-quantize-at --freeze-observers-at --freeze-batch-norm-at --checkpoint --checkpoint-steps --resume --report --log ' ;;
    run) words='--input --output --engine ' ;;
    eval) words='--data --labels --samples --batch --mean --std --engine ' ;;
    compare) words='--data --samples --mean --std --engine-a --engine-b ' ;;
    bench) words='--batch --input --output --runs --engine ' ;;
    export) words='-o --style ' ;;
    ops) words='' ;;
    kernels) words='' ;;
    quantizers) words='' ;;
    observers) words='' ;;
    fake_quantizers) words='' ;;
    optimizers) words='' ;;
    schedulers) words='' ;;
    networks) words='' ;;
    passes) words='' ;;
    formats) words='' ;;
    help) words='--man --completion ' ;;
  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$words --json --threads --isa --seed --quiet --config --help" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -o filenames -F _intact intact
