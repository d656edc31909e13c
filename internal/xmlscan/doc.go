// Package xmlscan splits untrusted XML documents into tags, in bounded memory
// and fast. The Readers of documents are built on it.
//
// It accepts well-formed XML 1.0 with namespaces in UTF-8, UTF-16, US-ASCII or
// ISO-8859-1, plain or as a gzip file, and nothing else: a document type that
// declares anything is refused, so entities beyond the five of XML do not
// exist, and nothing outside the document is ever read.
package xmlscan
