use stepsim_measure::profile::classes::*;

fn class(name: &str) -> String {
    ClassTables::shipped().of(name, false).class
}

#[test]
fn kernels_are_told_by_their_names() {
    assert_eq!(class("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT"), "cuBLAS");
    assert_eq!(class("void cublasLt::splitKreduce_kernel<32, 16>"), "cuBLAS");
    assert_eq!(class("void cutlass::device_kernel<flash::FlashAttnFwdSm90<…>>"), "FlashAttention");
    assert_eq!(class("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>"), "CUTLASS");
    assert_eq!(class("triton_poi_fused__to_copy_t_8"), "Triton");
    assert_eq!(class("Cijk_Alik_Bljk_SB_Bias"), "hipBLASLt");
    assert_eq!(class("_ZN2ck16tensor_operation6device"), "CK");
    assert_eq!(class("void at::native::vectorized_elementwise_kernel<4>"), "element-wise");
    assert_eq!(class("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), "NCCL");
    assert_eq!(class("void dpsk::ep::internode::dispatch<…>"), "DeepEP");
    assert_eq!(class("_combine_all_to_all_kernel"), "symmetric memory");
    assert_eq!(class("XXT_kernel"), "other");
    assert_eq!(ClassTables::shipped().of("Memset (Device)", true).class, "memset");
    assert_eq!(
        ClassTables::shipped().of("Memcpy HtoD (Pinned -> Device)", true).class,
        "memcpy host to device"
    );
}

#[test]
fn collectives_are_told_by_name_or_argument() {
    let classes = ClassTables::shipped();
    for (name, kind) in [
        ("_allgather_base", "all-gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(…)", "reduce-scatter"),
        ("nccl:all_reduce", "all-reduce"),
        ("all_to_allv", "all-to-all"),
        ("void deep_ep::internode::notify_dispatch<…>", "notify"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(…)", "send and receive"),
        ("kuserbuffers_pushrecv", "send and receive"),
        ("ncclDevKernel_Generic(…)", "other"),
    ] {
        assert_eq!(classes.kind(name), kind, "{name}");
    }
}

#[test]
fn a_file_of_ones_own_goes_first_and_a_wrong_one_is_refused() {
    let own = r#"{"classes": [{"class": "mine", "family": "communication", "patterns": ["^my_*_ring"]}]}"#;
    let classes = ClassTables::with(own, "own.json").unwrap();
    assert_eq!(classes.of("my_flash_attn_ring", false).family, Family::Communication);
    assert_eq!(classes.of("not_my_flash_attn_ring", false).class, "FlashAttention");
    for (wrong, at) in [
        (r#"{"classes": [{"class": "a", "family": "gpu", "patterns": []}]}"#, "classes[0].family"),
        (r#"{"classes": [{"class": "a", "family": "memory", "patterns": []}]}"#, "classes[0].family"),
        (
            r#"{"classes": [{"class": "a", "family": "compute", "patterns": ["^"]}]}"#,
            "classes[0].patterns[0]",
        ),
        (r#"{"clases": []}"#, "clases"),
    ] {
        let error = ClassTables::with(wrong, "own.json").unwrap_err();
        assert_eq!((error.file.as_str(), error.path.as_str()), ("own.json", at), "{error}");
    }
}
