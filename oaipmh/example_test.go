package oaipmh_test

import (
	"fmt"
	"strings"

	"lockstep/oaipmh"
)

// A response is read record by record; its token requests the next page.
func ExampleReader() {
	const response = `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">
  <responseDate>2026-05-02T00:00:00Z</responseDate>
  <request verb="ListRecords" metadataPrefix="oai_dc">https://example.org/oai</request>
  <ListRecords>
    <record><header status="deleted"><identifier>oai:example.org:1</identifier><datestamp>2026-05-01</datestamp></header></record>
    <resumptionToken>page-2</resumptionToken>
  </ListRecords>
</OAI-PMH>`
	r := oaipmh.NewReader(strings.NewReader(response), oaipmh.ReaderOptions{})
	for record, err := range r.Records() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(record.Identifier, record.Datestamp.Format("2006-01-02"), "deleted:", record.Deleted)
	}
	token, more := r.Token()
	fmt.Println(token.Value, more)
	// Output:
	// oai:example.org:1 2026-05-01 deleted: true
	// page-2 true
}
