// llm-cluster-simulator's form in a loop: cluster.ts MODEL COUNT; CHECKOUT is put in by peers.py.
import { getSimulationMetrics } from 'CHECKOUT/src/core/simulation/engine.ts';
import { createMultiNodeCluster } from 'CHECKOUT/src/core/hardware/topology.ts';

const [model, count] = process.argv.slice(2);
const nodes = model === 'llama3-405b' ? 128 : 16;
const clusterConfig = createMultiNodeCluster('h100-sxm', 8, nodes)!;
for (let i = 0; i < Number(count); i++) {
  const [tp, pp] = [1 << i % 4, 1 << (i >> 2) % 4];
  getSimulationMetrics({
    clusterConfig, modelId: model, globalBatchSize: 512 * (1 + (i >> 4) % 8), microBatchSize: 1, sequenceLength: 8192,
    strategyType: 'fsdp-tp-pp', activationCheckpointing: i % 2 === 0, flashAttention: true, mixedPrecision: 'bf16',
    strategyConfig: { tp, pp, dp: (nodes * 8) / (tp * pp), dpType: 'fsdp', sequenceParallel: true },
  });
}
