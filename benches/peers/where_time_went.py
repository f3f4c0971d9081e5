"""Where the time went in a folder of profiles: where_time_went.py HTA|TraceLens FOLDER."""

import pathlib
import sys

tool, folder = sys.argv[1:3]
if tool == "HTA":
    from hta.trace_analysis import TraceAnalysis

    found = TraceAnalysis(trace_dir=folder)
    found.get_temporal_breakdown(visualize=False)
    found.get_comm_comp_overlap(visualize=False)
else:
    from TraceLens import TreePerfAnalyzer

    first = min(pathlib.Path(folder).glob("rank*.json.gz"))
    TreePerfAnalyzer.from_file(str(first)).get_df_gpu_timeline()
