// Questions to begin with: each a shipped workload, some with settings, a curve to draw or a second step to stand beside.
import {preset} from './question.js';

const OFFLOAD_LINK = 'topology.node.memory[0].link.bandwidth_GBps_per_direction';

/** Titles and questions; `curve` names the field that is drawn over its scale, `beside` the step to compare with. */
export const PRESETS = [
  {title: 'GPT-3 175B on 1,024 H100: interleaved pipeline', question: preset('gpt3-175b')},
  {title: 'DeepSeek-V3 on 2,048 H800: DualPipe, 64-way expert parallelism', question: preset('deepseek-v3')},
  {title: 'An offload tier with its knee: 11T parameters on 4,096 devices', question: preset('11t-offload', {'batch.global': '256'}), curve: OFFLOAD_LINK},
  {title: 'FSDP against a pipeline (1F1B): Llama-3 70B', question: preset('llama3-70b', {
    'parallelism.tensor': '1', 'parallelism.pipeline.size': '1', 'parallelism.pipeline.schedule': '1f1b', 'parallelism.pipeline.chunks': 'null',
    'parallelism.data': 'null', 'parallelism.sharding.kind': 'zero3', 'recompute.granularity': 'full'}),
  beside: preset('llama3-70b', {'parallelism.pipeline.schedule': '1f1b', 'parallelism.pipeline.chunks': 'null'})},
  {title: 'Ring attention: Llama-3 8B at 131,072 tokens', question: preset('llama3-8b-fsdp', {
    sequence: '131072', 'batch.micro_batch': '1', 'parallelism.context.size': '8', 'parallelism.context.kind': 'ring', 'parallelism.data': 'null',
    'recompute.granularity': 'full'})},
  {title: 'One slow device among 64', question: preset('straggler-64')},
];
