//! A study as one HTML page: time against memory with their Pareto front, and a table to sort, each point with its command.

use std::fmt::Write;

use super::plot::{Plot, escape, short, text};
use super::rows::Row;
use super::space::set_text;
use crate::step::spec::SpecError;

/// Most rows of the table: the fastest.
const MOST_ROWS: usize = 5_000;

/// Rows of which no other is both as fast and as small, fastest first.
pub fn front(rows: &[Row]) -> Vec<&Row> {
    let key = |row: &Row| Some((row.outcome.step_time_s?, row.outcome.memory_peak_bytes?));
    let mut ok: Vec<(&Row, (f64, u64))> = rows.iter().filter_map(|row| Some((row, key(row)?))).collect();
    ok.sort_by(|a, b| a.1.0.total_cmp(&b.1.0).then(a.1.1.cmp(&b.1.1)));
    let mut least = u64::MAX;
    ok.retain(|(_, (_, bytes))| {
        let smaller = *bytes < least;
        least = least.min(*bytes);
        smaller
    });
    ok.into_iter().map(|(row, _)| row).collect()
}

/// The page. `command` is what runs the workload that the points change: `stepsim run gpt2-8`.
///
/// # Errors
/// What is to be plotted cannot be.
pub fn page(title: &str, command: &str, rows: &[Row], plots: &[Plot]) -> Result<String, SpecError> {
    let front = front(rows);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>{STYLE}</style></head>\
         <body>\n<h1>{0}</h1>\n<p>{1} points, {2} with a result. stepsim {3}.</p>\n",
        escape(title),
        rows.len(),
        rows.iter().filter(|row| row.outcome.step_time_s.is_some()).count(),
        env!("CARGO_PKG_VERSION"),
    );
    if !front.is_empty() {
        html += "<h2>Time and memory</h2>\n<p>On the front (joined): no other point is both as fast and as small.</p>\n";
        html += &front_svg(rows, &front)?;
    }
    for plot in plots {
        let _ = writeln!(html, "<h2>{} by {}</h2>\n{}", escape(&plot.y), escape(&plot.x), plot.svg(rows)?);
    }
    html += "<h2>Points</h2>\n<p>A click on a heading sorts; a click on a row shows its command.</p>\n";
    html += &table(command, rows, &front);
    let _ = write!(html, "<script>{SCRIPT}</script>\n</body></html>\n");
    Ok(html)
}

/// All points by memory and time, those of the front in a colour of their own and joined.
fn front_svg(rows: &[Row], front: &[&Row]) -> Result<String, SpecError> {
    let is_front = |row: &Row| front.iter().any(|other| std::ptr::eq(*other, row));
    let marked: Vec<Row> = rows
        .iter()
        .map(|row| {
            let mut marked = row.clone();
            marked
                .settings
                .insert("front".into(), if is_front(row) { "front" } else { "other points" }.into());
            marked
        })
        .collect();
    Plot { x: "memory_peak_GiB".into(), y: "step_time_s".into(), colour: Some("front".into()) }.svg(&marked)
}

fn table(command: &str, rows: &[Row], front: &[&Row]) -> String {
    let mut paths: Vec<&String> = Vec::new();
    for path in rows.iter().flat_map(|row| row.settings.keys()) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let mut shown: Vec<&Row> = rows.iter().collect();
    shown.sort_by(|a, b| {
        let time = |row: &Row| row.outcome.step_time_s.unwrap_or(f64::INFINITY);
        time(a).total_cmp(&time(b))
    });
    let heads = ["point", "step, s", "MFU, %", "memory, GiB", "front"].map(str::to_string).into_iter();
    let heads = heads.chain(paths.iter().map(|path| escape(path))).chain(["status".to_string()]);
    let mut html = "<table id=\"points\"><thead><tr>".to_string();
    heads.for_each(|head| html += &format!("<th>{head}</th>"));
    html += "</tr></thead><tbody>\n";
    for row in shown.iter().take(MOST_ROWS) {
        let o = &row.outcome;
        let number = |x: Option<f64>| x.map(short).unwrap_or_default();
        let sets: Vec<String> = row
            .settings
            .iter()
            .map(|(path, value)| format!("--set {}", quoted(&set_text(path, value))))
            .collect();
        let on = front.iter().any(|other| std::ptr::eq(*other, *row));
        let status = row.column("status").map(|status| text(&status)).unwrap_or_default();
        let tip = o.message.as_deref().unwrap_or_default();
        let _ = write!(html, "<tr data-command=\"{}\">", escape(&format!("{command} {}", sets.join(" "))));
        let cells = [
            row.point.to_string(),
            number(o.step_time_s),
            number(o.mfu.map(|x| 100.0 * x)),
            number(o.memory_peak_bytes.map(|b| b as f64 / (1u64 << 30) as f64)),
            if on { "●" } else { "" }.to_string(),
        ];
        let of_paths = paths.iter().map(|path| row.settings.get(*path).map(text).unwrap_or_default());
        cells.into_iter().chain(of_paths).for_each(|cell| html += &format!("<td>{}</td>", escape(&cell)));
        let _ = writeln!(html, "<td title=\"{}\">{}</td></tr>", escape(tip), escape(&status));
    }
    html += "</tbody></table>\n";
    if rows.len() > MOST_ROWS {
        let _ = writeln!(html, "<p>The fastest {MOST_ROWS} of {} are listed.</p>", rows.len());
    }
    html
}

/// A word as a shell takes it.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_.,:=/+-".contains(c);
    if text.chars().all(plain) { text.to_string() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

const STYLE: &str = "body{font-family:sans-serif;margin:2em;max-width:1200px}table{border-collapse:collapse;font-size:13px}\
    th,td{padding:3px 9px;text-align:right;border-bottom:1px solid #ddd}th{cursor:pointer;background:#f4f4f4;position:sticky;top:0}\
    tbody tr{cursor:pointer}tbody tr:hover{background:#eef5fb}code{white-space:pre-wrap;background:#f4f4f4;padding:6px;display:block}\
    tr.command td{text-align:left}";

/// Sorting by a click on a heading, numbers by size; the command of a row under it.
const SCRIPT: &str = "\
const table=document.getElementById('points'),body=table.tBodies[0];\
table.tHead.addEventListener('click',e=>{const th=e.target.closest('th');if(!th)return;\
const i=th.cellIndex,down=th.dataset.down=th.dataset.down==='1'?'0':'1';\
body.querySelectorAll('tr.command').forEach(r=>r.remove());\
const key=r=>{const t=r.cells[i].textContent,n=parseFloat(t);return t===''?[2,'']:isNaN(n)?[1,t]:[0,n]};\
const rows=[...body.rows].map(r=>[key(r),r]).sort(([a],[b])=>a[0]-b[0]||(a[1]<b[1]?-1:a[1]>b[1]?1:0));\
if(down==='0')rows.reverse();rows.forEach(([,r])=>body.append(r))});\
body.addEventListener('click',e=>{const row=e.target.closest('tr');if(!row||!row.dataset.command)return;\
const next=row.nextElementSibling;if(next&&next.classList.contains('command')){next.remove();return}\
const tr=document.createElement('tr'),td=tr.insertCell(),code=document.createElement('code');\
tr.className='command';td.colSpan=row.cells.length;code.textContent=row.dataset.command;td.append(code);row.after(tr)});";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_front_has_no_point_that_another_beats() {
        let row = |seconds: f64, bytes: u64| -> Row {
            serde_json::from_value(json!({"key": "k", "status": "ok", "settings": {"a": "x y"},
                "step_time_s": seconds, "memory_peak_bytes": bytes}))
            .expect("a row")
        };
        let rows = [row(3.0, 10), row(1.0, 40), row(2.0, 20), row(2.5, 30), row(1.0, 50), row(4.0, 10)];
        let times: Vec<_> = front(&rows).iter().filter_map(|row| row.outcome.step_time_s).collect();
        assert_eq!(times, [1.0, 2.0, 3.0]);
        let html = page("a & b", "stepsim run x", &rows, &[]).unwrap();
        assert!(html.contains("a &amp; b") && html.contains("stepsim run x --set 'a=x y'"));
        assert_eq!(html.matches("<tr data-command").count(), 6);
        assert_eq!(html.matches("<td>●</td>").count(), 3);
        let none: Row =
            serde_json::from_value(json!({"key": "k", "status": "invalid", "settings": {}})).unwrap();
        assert!(!page("t", "c", &[none], &[]).unwrap().contains("<svg"));
    }
}
