// Package mediatype determines the media type of a file: by the extension of its
// name if it is a known one, else by its first bytes. Both tables are part of
// the program, so a file has the same type on every machine.
package mediatype

import (
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// HeadSize is how many of the first bytes of a file are considered.
const HeadSize = 3 << 10

// Of returns the media type of a file with the given name and first bytes.
func Of(name string, head []byte) string {
	if t := ByName(name); t != "" {
		return t
	}
	t := mimetype.Detect(head[:min(len(head), HeadSize)]).String()
	if i := strings.IndexByte(t, ';'); i >= 0 {
		t = strings.TrimSpace(t[:i]) // the charset is only a guess
	}
	return t
}

// ByName returns the type for the extension of name, or "".
func ByName(name string) string {
	i := strings.LastIndexByte(name, '.')
	ext := name[i+1:]
	var lower [8]byte
	if i < 0 || len(ext) > len(lower) {
		return ""
	}
	for i := range len(ext) {
		c := ext[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return byExtension[string(lower[:len(ext)])]
}

// byExtension has types by extension in lower case. Extensions with more than
// one meaning are left out. A change here also requires a new tokenRules in
// package intake, so that files scanned earlier get the new type.
var byExtension = map[string]string{
	"7z":       "application/x-7z-compressed",
	"adoc":     "text/asciidoc",
	"aif":      "audio/aiff",
	"aiff":     "audio/aiff",
	"alto":     "application/xml",
	"apng":     "image/apng",
	"arc":      "application/x-arc",
	"atom":     "application/atom+xml",
	"avi":      "video/x-msvideo",
	"avif":     "image/avif",
	"avro":     "application/avro",
	"bib":      "application/x-bibtex",
	"bin":      "application/octet-stream",
	"bmp":      "image/bmp",
	"bz2":      "application/x-bzip2",
	"c":        "text/x-c",
	"cc":       "text/x-c++",
	"cdx":      "text/plain",
	"cdxj":     "text/plain",
	"cif":      "chemical/x-cif",
	"conf":     "text/plain",
	"cpp":      "text/x-c++",
	"crt":      "application/x-x509-ca-cert",
	"cs":       "text/x-csharp",
	"css":      "text/css",
	"csv":      "text/csv",
	"deb":      "application/vnd.debian.binary-package",
	"diff":     "text/x-diff",
	"djvu":     "image/vnd.djvu",
	"dll":      "application/vnd.microsoft.portable-executable",
	"dng":      "image/x-adobe-dng",
	"doc":      "application/msword",
	"docx":     "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"dtd":      "application/xml-dtd",
	"eml":      "message/rfc822",
	"eps":      "application/postscript",
	"epub":     "application/epub+zip",
	"exe":      "application/vnd.microsoft.portable-executable",
	"fits":     "application/fits",
	"flac":     "audio/flac",
	"geojson":  "application/geo+json",
	"gif":      "image/gif",
	"glb":      "model/gltf-binary",
	"gltf":     "model/gltf+json",
	"gml":      "application/gml+xml",
	"go":       "text/x-go",
	"gpx":      "application/gpx+xml",
	"gz":       "application/gzip",
	"h":        "text/x-c",
	"h5":       "application/x-hdf5",
	"hdf5":     "application/x-hdf5",
	"heic":     "image/heic",
	"hpp":      "text/x-c++",
	"htm":      "text/html",
	"html":     "text/html",
	"ico":      "image/vnd.microsoft.icon",
	"ics":      "text/calendar",
	"ini":      "text/plain",
	"ipynb":    "application/x-ipynb+json",
	"iso":      "application/x-iso9660-image",
	"j2k":      "image/j2c",
	"jar":      "application/java-archive",
	"java":     "text/x-java",
	"jp2":      "image/jp2",
	"jpe":      "image/jpeg",
	"jpeg":     "image/jpeg",
	"jpg":      "image/jpeg",
	"jpx":      "image/jpx",
	"js":       "text/javascript",
	"json":     "application/json",
	"jsonl":    "application/jsonl",
	"jsonld":   "application/ld+json",
	"jxl":      "image/jxl",
	"kml":      "application/vnd.google-earth.kml+xml",
	"kmz":      "application/vnd.google-earth.kmz",
	"kt":       "text/x-kotlin",
	"log":      "text/plain",
	"lua":      "text/x-lua",
	"m4a":      "audio/mp4",
	"m4v":      "video/mp4",
	"marcxml":  "application/marcxml+xml",
	"markdown": "text/markdown",
	"mbox":     "application/mbox",
	"md":       "text/markdown",
	"mets":     "application/mets+xml",
	"mid":      "audio/midi",
	"mjs":      "text/javascript",
	"mkv":      "video/matroska",
	"mobi":     "application/x-mobipocket-ebook",
	"mods":     "application/mods+xml",
	"mol":      "chemical/x-mdl-molfile",
	"mov":      "video/quicktime",
	"mp3":      "audio/mpeg",
	"mp4":      "video/mp4",
	"mpeg":     "video/mpeg",
	"mpg":      "video/mpeg",
	"mrc":      "application/marc",
	"mxf":      "application/mxf",
	"n3":       "text/n3",
	"nc":       "application/x-netcdf",
	"ndjson":   "application/x-ndjson",
	"npy":      "application/octet-stream",
	"nq":       "application/n-quads",
	"nt":       "application/n-triples",
	"obj":      "model/obj",
	"odp":      "application/vnd.oasis.opendocument.presentation",
	"ods":      "application/vnd.oasis.opendocument.spreadsheet",
	"odt":      "application/vnd.oasis.opendocument.text",
	"oga":      "audio/ogg",
	"ogg":      "audio/ogg",
	"ogv":      "video/ogg",
	"opus":     "audio/ogg",
	"otf":      "font/otf",
	"owl":      "application/rdf+xml",
	"parquet":  "application/vnd.apache.parquet",
	"patch":    "text/x-diff",
	"pdf":      "application/pdf",
	"pem":      "application/x-pem-file",
	"php":      "application/x-httpd-php",
	"pl":       "text/x-perl",
	"png":      "image/png",
	"ppt":      "application/vnd.ms-powerpoint",
	"pptx":     "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	"proto":    "text/x-protobuf",
	"ps":       "application/postscript",
	"psd":      "image/vnd.adobe.photoshop",
	"py":       "text/x-python",
	"rar":      "application/vnd.rar",
	"rb":       "text/x-ruby",
	"rdf":      "application/rdf+xml",
	"ris":      "application/x-research-info-systems",
	"rng":      "application/xml",
	"rpm":      "application/x-rpm",
	"rs":       "text/x-rust",
	"rss":      "application/rss+xml",
	"rst":      "text/x-rst",
	"rtf":      "application/rtf",
	"sh":       "application/x-sh",
	"shp":      "application/vnd.shp",
	"sig":      "application/pgp-signature",
	"sql":      "application/sql",
	"sqlite":   "application/vnd.sqlite3",
	"srt":      "application/x-subrip",
	"stl":      "model/stl",
	"svg":      "image/svg+xml",
	"swift":    "text/x-swift",
	"tar":      "application/x-tar",
	"tei":      "application/tei+xml",
	"tex":      "application/x-tex",
	"text":     "text/plain",
	"tgz":      "application/gzip",
	"tif":      "image/tiff",
	"tiff":     "image/tiff",
	"toml":     "application/toml",
	"torrent":  "application/x-bittorrent",
	"trig":     "application/trig",
	"tsv":      "text/tab-separated-values",
	"ttf":      "font/ttf",
	"ttl":      "text/turtle",
	"txt":      "text/plain",
	"vcf":      "text/vcard",
	"vtt":      "text/vtt",
	"wacz":     "application/wacz",
	"warc":     "application/warc",
	"wasm":     "application/wasm",
	"wav":      "audio/wav",
	"webm":     "video/webm",
	"webp":     "image/webp",
	"whl":      "application/zip",
	"woff":     "font/woff",
	"woff2":    "font/woff2",
	"xhtml":    "application/xhtml+xml",
	"xls":      "application/vnd.ms-excel",
	"xlsx":     "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"xml":      "application/xml",
	"xsd":      "application/xml",
	"xsl":      "application/xslt+xml",
	"xslt":     "application/xslt+xml",
	"xz":       "application/x-xz",
	"yaml":     "application/yaml",
	"yml":      "application/yaml",
	"zip":      "application/zip",
	"zst":      "application/zstd",
}
