package route53

import (
	"encoding/xml"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

// temporaryCodes are errors of too many calls, and of STS while it cannot reach the issuer
// of a token. Their status is 400.
var temporaryCodes = []string{"Throttling", "ThrottlingException", "RequestLimitExceeded", "PriorRequestNotComplete", "IDPCommunicationError"}

// explain reads the errors of Route 53 and STS. Route 53 has two formats for
// changes that it refuses.
func explain(_ int, body []byte) restcall.Fault {
	var answer struct {
		XMLName  xml.Name
		Code     string   `xml:"Error>Code"`
		Message  string   `xml:"Error>Message"`
		Messages []string `xml:"Messages>Message"`
	}
	if xml.Unmarshal(body, &answer) != nil {
		return restcall.Fault{}
	}
	if answer.XMLName.Local == invalidChange {
		return restcall.Fault{Code: invalidChange, Message: strings.Join(answer.Messages, "; ")}
	}
	return restcall.Fault{Code: answer.Code, Message: answer.Message, Temporary: slices.Contains(temporaryCodes, answer.Code)}
}
