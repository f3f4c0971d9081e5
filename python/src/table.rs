//! Tables as Arrow columns, handed over by the PyCapsule interface: pyarrow, pandas and polars take them without
//! copying.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Columns of equal length with their names.
#[pyclass(frozen, module = "stepsim._native")]
pub struct Table(RecordBatch);

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }
    /// One column as a list.
    fn column(&self, name: &str, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Some(column) = self.0.column_by_name(name) else {
            let names = self.column_names().join(", ");
            return Err(PyValueError::new_err(format!("there is no column `{name}`; allowed: {names}")));
        };
        let any = column.as_any();
        if let Some(texts) = any.downcast_ref::<StringArray>() {
            return Ok(texts.iter().collect::<Vec<_>>().into_pyobject(py)?.unbind());
        }
        if let Some(numbers) = any.downcast_ref::<UInt64Array>() {
            return Ok(numbers.iter().collect::<Vec<_>>().into_pyobject(py)?.unbind());
        }
        if let Some(numbers) = any.downcast_ref::<UInt32Array>() {
            return Ok(numbers.iter().collect::<Vec<_>>().into_pyobject(py)?.unbind());
        }
        let numbers = any.downcast_ref::<Float64Array>();
        Ok(numbers.map(|n| n.iter().collect::<Vec<_>>()).into_pyobject(py)?.unbind())
    }
    /// The Arrow PyCapsule interface: a stream of one batch.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer may ask for other types; the interface leaves it to the producer to give its own.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok::<_, ArrowError>(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// Columns as they are filled.
#[derive(Default)]
pub struct Columns(Vec<(&'static str, ArrayRef)>);

impl Columns {
    /// Adds texts.
    pub fn text<T: AsRef<str>>(mut self, name: &'static str, values: impl IntoIterator<Item = T>) -> Columns {
        self.0.push((name, Arc::new(StringArray::from_iter_values(values))));
        self
    }
    /// Adds whole numbers.
    pub fn whole(mut self, name: &'static str, values: impl IntoIterator<Item = u64>) -> Columns {
        self.0.push((name, Arc::new(UInt64Array::from_iter_values(values))));
        self
    }
    /// Adds small numbers, of which some are absent.
    pub fn small(mut self, name: &'static str, values: impl IntoIterator<Item = Option<u32>>) -> Columns {
        self.0.push((name, Arc::new(values.into_iter().collect::<UInt32Array>())));
        self
    }
    /// Adds numbers.
    pub fn number(mut self, name: &'static str, values: impl IntoIterator<Item = f64>) -> Columns {
        self.0.push((name, Arc::new(Float64Array::from_iter_values(values))));
        self
    }
    /// The table.
    pub fn table(self) -> PyResult<Table> {
        let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        let schema = Schema::new(self.0.iter().map(field).collect::<Vec<_>>());
        let arrays = self.0.into_iter().map(|column| column.1).collect();
        let batch = RecordBatch::try_new(Arc::new(schema), arrays);
        batch.map(Table).map_err(|e| PyValueError::new_err(e.to_string()))
    }
}
