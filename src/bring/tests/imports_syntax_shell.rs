//! The words of the programs that a script runs, beside those that bash gives them.

use std::process::Command;

use stepsim_bring::imports::Invocation;
use stepsim_bring::imports::syntax::shell::{Counts, programs};

/// Programs that stand for those of a job: each writes down its words, a NUL behind each.
const STUBS: [&str; 5] = ["torchrun", "srun", "deepspeed", "accelerate", "python"];
/// The machine: two nodes of eight.
const COUNTS: Counts = Counts { nodes: 2, devices_per_node: 8 };

/// The words of each stub that bash runs, in a folder with nothing else.
fn of_bash(script: &str, words: &[String]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let stub = |name: &str, text: &str| {
        std::fs::write(path(name), format!("#!/bin/bash\n{text}\n")).expect("a stub");
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(path(name), mode).expect("a program");
    };
    let log = path("log");
    for name in STUBS {
        stub(name, &format!("printf '%s\\0' {name} \"$@\" >> {0}; printf '\\n\\0' >> {0}", log.display()));
    }
    stub("nvidia-smi", "for i in 0 1 2 3 4 5 6 7; do echo \"GPU $i: a device\"; done");
    stub("scontrol", "echo node0; echo node1");
    std::fs::write(path("common.sh"), COMMON).expect("a script");
    std::fs::write(path("run.sh"), script).expect("a script");
    let place = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut line = Command::new("bash");
    line.arg("run.sh").args(words).current_dir(folder.path()).env_clear().env("PATH", place);
    for (name, value) in [("SLURM_NNODES", "2"), ("SLURM_GPUS_PER_NODE", "8"), ("SLURM_NODEID", "0")] {
        line.env(name, value);
    }
    line.output().expect("bash runs");
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut all = vec![Vec::new()];
    for word in text.split_terminator('\0') {
        match word {
            "\n" => all.push(Vec::new()),
            word => all.last_mut().expect("one").push(word.to_string()),
        }
    }
    all.pop();
    all
}

/// The same by the program; what it does not know stands as it is.
fn of_ours(script: &str, words: &[String]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("common.sh"), COMMON).expect("a script");
    let file = folder.path().join("run.sh").display().to_string();
    let typed = Invocation { file, words: words.to_vec(), counts: Some(COUNTS), ..Invocation::default() };
    let mut all = programs(script, &typed).expect("a script");
    all.retain(|words| STUBS.contains(&words[0].as_str()));
    all
}

/// What scripts take in.
const COMMON: &str = "LAYERS=32\nwide() { echo $((64 * $1)); }\n";

/// Scripts in the ways in which launch scripts are written.
const SCRIPTS: [&str; 44] = [
    "torchrun --nproc_per_node 8 train.py --a 1",
    "N=$(nvidia-smi -L | wc -l)\nBS=512\nSTEPS=$(($BS / $N / 2))\ntorchrun --nproc_per_node $N t.py --steps $STEPS",
    "ARGS=(\n  --a 1 # one\n  --b 'two words'\n)\nARGS+=(--c)\nsrun torchrun t.py \"${ARGS[@]}\"",
    "ARGS=\"\n  --a 1 \\\n  --b\n\"\ntorchrun $ARGS t.py",
    "for tp in 1 2 4; do\n  for pp in {1..2}; do\n    torchrun t.py --tp $tp --pp $pp --dp $((16 / tp / pp))\n  done\ndone",
    "for ((i = 0; i < 3; i++)); do [ $i -eq 1 ] && continue; python t.py --i $i; done",
    "case ${1:-small} in\n  small) H=1024 ;;\n  big|large) H=8192 ;;\nesac\npython t.py --hidden $H",
    "declare -A W=([8B]=4096 [70B]=8192)\nfor s in 8B 70B; do python t.py --hidden ${W[$s]}; done",
    "L=(1 2 3)\nL[1]=9\npython t.py --l ${L[1]} --n ${#L[@]} --last ${L[-1]} --all \"${L[*]}\"",
    "IFS=',' read -ra P <<< \"4,2,1\"\npython t.py --tp ${P[0]} --pp ${P[1]} --cp ${P[2]}",
    "CONFIG=\"4:2\"\nIFS=: read -r TP PP <<< $CONFIG\npython t.py --tp $TP --pp $PP",
    "f() {\n  local n=$1\n  shift\n  torchrun --nproc_per_node $n t.py \"$@\"\n}\nf 8 --a \"b c\"\nf 4",
    "M=meta-llama/Llama-3.1-8B\nNAME=${M##*/}\npython t.py --model $M --name ${NAME%-*} --dir ${M%/*} --low ${NAME,,} --dash ${M//\\//-}",
    "A=abcdef; python t.py --a ${A:1:3} --b ${A: -2} --c ${#A}",
    "if [[ \"$SLURM_NNODES\" -gt 1 && -n $SLURM_NODEID ]]; then X=multi; else X=one; fi\nsrun python t.py --x $X",
    "WORLD=$((SLURM_NNODES * SLURM_GPUS_PER_NODE))\nsrun --nodes=$SLURM_NNODES python t.py --world $WORLD --gbs $((WORLD * 4))",
    "HOSTS=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\ntorchrun --rdzv_endpoint $HOSTS:29500 t.py",
    "source common.sh\npython t.py --layers $LAYERS --hidden $(wide 32)",
    ". ./common.sh\nCMD=\"python t.py --layers $LAYERS\"\neval $CMD",
    "CMD=\"torchrun t.py --a 1\"\nCMD=\"$CMD --b '2 3'\"\n$CMD\neval \"$CMD\"",
    "cat > ds.json <<EOF\n{\"a\": $((1 + 2))}\nEOF\ndeepspeed t.py --config ds.json --text \"$(cat ds.json)\"",
    "cat <<'EOF' > x\n$NOT\nEOF\npython t.py --x \"$(cat x)\"",
    "set -- a b c\nshift\npython t.py --n $# --first $1 --all \"$@\"",
    "while [ $# -gt 0 ]; do\n  case $1 in\n    --size) SIZE=$2; shift 2;;\n    *) OTHER+=(\"$1\"); shift;;\n  esac\ndone\npython t.py --size $SIZE \"${OTHER[@]}\"",
    "X=1\n(X=2; python t.py --x $X)\npython t.py --x $X",
    "X=0\nuntil [ $X -ge 2 ]; do X=$((X + 1)); done\npython t.py --x $X",
    "A=1 python t.py --a \"${A:-none}\"",
    "true && python t.py --and || python t.py --or\nfalse && python t.py --no || python t.py --yes",
    "export A=2 B=\"x y\"\npython t.py --a $A --b \"$B\" --c $B",
    "python t.py --empty \"\" --quote '\"' --dollar '$A' --esc \\$A \"a\\\"b\" \"a\\nb\"",
    "N=${N:-4}\n: ${M:=5}\npython t.py --n $N --m $M --p ${P:+set} --q ${N:+set}",
    "python t.py \\\n  --a 1 \\\n  --b 2 | tee out2.txt\npython t.py --c 2>&1 > out.txt &\nwait",
    "S=$(printf \"%03d-%s\" 7 x)\nprintf -v T '%s_%s' a b\npython t.py --s $S --t $T",
    "for i in $(seq 0 2 4); do echo $i; done | while read line; do python t.py --line $line; done",
    "MODEL=qwen\ndeclare -n REF=MODEL 2>/dev/null\nNAME=MODEL\npython t.py --m ${!NAME}",
    "if ! [ \"$1\" = train ] ; then MODE=eval; elif [[ $2 == x* ]]; then MODE=x; fi\npython t.py --mode $MODE",
    "G=$(echo 0,1,2,3 | tr ',' '\\n' | wc -l)\nH=$(echo a:b:c | cut -d: -f2)\npython t.py --g $G --h $H",
    "x=5; ((x += 3)); ((y = x * 2)); let z=y-1\npython t.py --x $x --y $y --z $z --p $((2 ** 4)) --t $((x > 7 ? 1 : 0))",
    "NAME=\"run_$(basename /a/b/model.json .json)_$(dirname a/b)\"\naccelerate launch --num_processes 8 t.py --name $NAME",
    "if [ -z \"$UNSET\" ]; then A=\"--flag\"; fi\npython t.py $A ${UNSET:+--other} \"${NONE[@]}\"",
    "for s in 8b 70b; do\n  if [[ $s =~ ^[0-9]+b$ ]]; then :; fi\n  [ $s = 70b ] && break\n  python t.py --s $s\ndone",
    "OPTS=$(cat <<EOF\n--a 1\n--b 2\nEOF\n)\npython t.py $OPTS",
    "main() { python t.py --n $#; return 0; python t.py --never; }\nmain a 'b c' d",
    "T=\"a b\"; L=($T); python t.py --n ${#L[@]} --sl \"${L[@]:1}\" --nested \"$(echo \"$(echo in)\")\" `echo back`",
];

#[test]
fn programs_get_the_words_that_bash_gives_them() {
    let words: Vec<String> = ["train", "xy", "--size", "8B"].map(str::to_string).to_vec();
    if Command::new("bash").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: no bash");
    }
    let mut seen = 0;
    for script in SCRIPTS {
        let words = if script.contains("while [ $#") { &words[2..] } else { &words[..2] };
        let words = if script.contains("${1:-") { &[] } else { words };
        let (bash, ours) = (of_bash(script, words), of_ours(script, words));
        assert_eq!(ours, bash, "{script}");
        seen += bash.len();
    }
    assert!(seen > 55, "{seen} programs");
}
