//! The pages of row groups. The Parquet library reads them, but only after `claims` has checked what they claim.

use std::io::{Cursor, Read};
use std::sync::Arc;

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

use super::claims;

/// Most headers of pages are shorter than the first; a header with statistics of long texts may be longer.
const FIRST_BYTES: u64 = 256;
const MOST_BYTES: u64 = 16 << 20;

/// Some row groups of a file.
pub(super) struct Groups<R> {
    pub(super) reader: Arc<Bounded<R>>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) groups: Vec<usize>,
}

impl<R: ChunkReader + 'static> RowGroups for Groups<R> {
    fn num_rows(&self) -> usize {
        self.row_groups().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).fold(0, usize::saturating_add)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let (reader, metadata) = (Arc::clone(&self.reader), Arc::clone(&self.metadata));
        Ok(Box::new(Chunks { reader, metadata, column, groups: self.groups.clone().into_iter() }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.groups.iter().map(|group| self.metadata.row_group(*group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of a column, one for each row group.
struct Chunks<R> {
    reader: Arc<Bounded<R>>,
    metadata: Arc<ParquetMetaData>,
    column: usize,
    groups: std::vec::IntoIter<usize>,
}

impl<R: ChunkReader + 'static> Iterator for Chunks<R> {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.metadata.row_group(self.groups.next()?);
        let column = group.column(self.column);
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages = SerializedPageReader::new(Arc::clone(&self.reader), column, rows, None);
        Some(pages.map(|pages| {
            let descriptor = column.column_descr_ptr();
            Box::new(Pages { pages, descriptor }) as Box<dyn PageReader>
        }))
    }
}

impl<R: ChunkReader + 'static> PageIterator for Chunks<R> {}

/// The pages of a chunk.
struct Pages<R: ChunkReader> {
    pages: SerializedPageReader<Bounded<R>>,
    descriptor: Arc<ColumnDescriptor>,
}

impl<R: ChunkReader + 'static> Iterator for Pages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader + 'static> PageReader for Pages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.pages.get_next_page()? else { return Ok(None) };
        let lists = match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Ok(Some(page)),
        };
        let Some(values) = values(&page, &self.descriptor) else { return Ok(Some(page)) };
        match claims::lengths(&values, lists, page.num_values()) {
            _ if values.is_empty() => Ok(Some(page)),
            None => Ok(Some(page)),
            Some(why) => Err(ParquetError::General(why)),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// Return the values of a data page, which follow its levels; `None` if the page is too short or is a dictionary.
fn values(page: &Page, column: &ColumnDescriptor) -> Option<Bytes> {
    match page {
        Page::DataPage { buf, .. } => {
            let mut at = 0usize;
            for level in [column.max_rep_level(), column.max_def_level()] {
                if level > 0 {
                    let length = buf.get(at..at.checked_add(4)?)?.first_chunk::<4>()?;
                    at = at.checked_add(4 + u32::from_le_bytes(*length) as usize)?;
                }
            }
            (at <= buf.len()).then(|| buf.slice(at..))
        }
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let at = (*def_levels_byte_len as usize).checked_add(*rep_levels_byte_len as usize)?;
            (at <= buf.len()).then(|| buf.slice(at..))
        }
        Page::DictionaryPage { .. } => None,
    }
}

/// A file whose pages are checked where their headers are read: the library reads nothing else as a stream.
pub(super) struct Bounded<R>(pub(super) R);

impl<R: ChunkReader> Length for Bounded<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Bounded<R> {
    type T = std::io::Chain<Cursor<Vec<u8>>, R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut rest = self.0.get_read(start)?;
        let (mut head, mut size) = (Vec::new(), FIRST_BYTES);
        loop {
            let read = rest.by_ref().take(size - head.len() as u64).read_to_end(&mut head)?;
            match claims::page(&head) {
                Ok(None) => return Ok(Cursor::new(head).chain(rest)),
                Ok(Some(why)) => return Err(ParquetError::General(why)),
                Err(()) if read == 0 || size >= MOST_BYTES => {
                    return Err(ParquetError::General("a page has no valid header".into()));
                }
                Err(()) => size *= 4,
            }
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}
