package hosts

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// Text returns a table of hosts. A wide table also shows the certificate that expires
// first, the age of the oldest revocation list, and the time of the host's registration.
func Text(hosts []Host, wide bool, now time.Time) string {
	if len(hosts) == 0 {
		return "No hosts of agents found. To let one join: certplane token create --node NAME\n"
	}
	var out strings.Builder
	table := printers.GetNewTabWriter(&out)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(Columns(wide), "\t")))
	for _, h := range hosts {
		fmt.Fprintln(table, strings.Join(h.Row(wide, now), "\t"))
	}
	_ = table.Flush() // into memory
	return out.String()
}

// Columns returns the names of the columns of a table of hosts.
func Columns(wide bool) []string {
	columns := []string{"Name", "State", "Last seen", "Agent", "Certificates", "First expiry"}
	if wide {
		columns = append(columns, "First certificate", "Oldest list", "Age")
	}
	return append(columns, "Last error")
}

// Row returns the row of a host, with the Columns.
func (h Host) Row(wide bool, now time.Time) []string {
	expires, first := "-", "-"
	if c := h.next(); c != nil {
		expires = relative(c.NotAfter, now)
		first = fmt.Sprintf("%s/%s %s %s", c.Namespace, c.Pod, c.Volume, c.Signer)
	}
	row := []string{h.Name, h.State, relative(h.LastSeen, now), print.OrDash(h.AgentVersion), strconv.Itoa(len(h.Certificates)), expires}
	if wide {
		row = append(row, first, relative(h.oldestList(), now), print.Span(now.Sub(h.Registered)))
	}
	row = append(row, print.OrDash(h.Error))
	for i := range row {
		// Hosts write these texts: escape control characters for terminals.
		row[i] = print.Printable(strings.Join(strings.Fields(row[i]), " "))
	}
	return row
}

func relative(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return "-"
	case t.After(now):
		return "in " + print.Span(t.Sub(now))
	}
	return print.Span(now.Sub(*t)) + " ago"
}
