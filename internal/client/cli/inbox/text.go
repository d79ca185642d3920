package inbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
)

// mostNames is the maximum number of a request's names in the table.
const mostNames = 3

// Text returns a table of the requests. Wide has more columns.
func (b Inbox) Text(now time.Time, wide bool) string {
	rows := [][]string{{"REQUEST", "NAMESPACE", "SIGNER", "REQUESTER", "SUBJECT", "NAMES", "USAGES", "AGE", "STATE", "YOU"}}
	if wide {
		rows[0] = append(rows[0], "KEY", "LIFETIME", "REASON")
	}
	for _, e := range b.Requests {
		row := []string{
			e.Called(), print.OrDash(e.Namespace), print.OrDash(e.Signer), print.OrDash(e.Requester), print.OrDash(e.Subject), print.OrDash(e.shortNames(wide)),
			print.OrDash(strings.Join(e.Usages, ",")), print.Span(max(0, now.Sub(e.Created))), e.State, e.you(),
		}
		if wide {
			row = append(row, print.OrDash(e.Key), e.lifetime(), print.OrDash(e.Reason))
		}
		rows = append(rows, row)
	}
	return print.Columns(rows)
}

// Called returns the request in the form of arguments: csr/NAME.
func (e Entry) Called() string { return e.resource.Short + "/" + e.Name }

func (e Entry) shortNames(all bool) string {
	if all || len(e.Names) <= mostNames {
		return strings.Join(e.Names, ",")
	}
	return fmt.Sprintf("%s +%d", strings.Join(e.Names[:mostNames], ","), len(e.Names)-mostNames)
}

// you describes whether the caller may decide the request.
func (e Entry) you() string {
	switch e.YouMayDecide {
	case explain.Yes:
		return "may decide"
	case explain.No:
		return "may not decide"
	case explain.Unknown:
		return "unknown"
	}
	return "-"
}

func (e Entry) lifetime() string {
	if e.ExpirationSeconds == nil {
		return "-"
	}
	return print.Span(time.Duration(*e.ExpirationSeconds) * time.Second)
}
