package hosts

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/certplane/certplane/internal/cli/print"
)

// Text returns a table of hosts. A wide one also says which certificate expires
// first, and since when the host is registered.
func Text(hosts []Host, wide bool, now time.Time) string {
	if len(hosts) == 0 {
		return "There are no hosts of agents. To let one join: certplane token create --node NAME\n"
	}
	var out strings.Builder
	table := printers.GetNewTabWriter(&out)
	columns := []string{"NAME", "STATE", "LAST SEEN", "AGENT", "CERTIFICATES", "FIRST EXPIRY"}
	if wide {
		columns = append(columns, "FIRST CERTIFICATE", "AGE")
	}
	fmt.Fprintln(table, strings.Join(append(columns, "LAST ERROR"), "\t"))
	for _, h := range hosts {
		fmt.Fprintln(table, strings.Join(h.row(wide, now), "\t"))
	}
	_ = table.Flush() // into memory
	return out.String()
}

func (h Host) row(wide bool, now time.Time) []string {
	expires, first := "-", "-"
	if c := h.next(); c != nil {
		expires = relative(c.NotAfter, now)
		first = fmt.Sprintf("%s/%s %s %s", c.Namespace, c.Pod, c.Volume, c.Signer)
	}
	row := []string{h.Name, h.State, relative(h.LastSeen, now), print.OrDash(h.AgentVersion), strconv.Itoa(len(h.Certificates)), expires}
	if wide {
		row = append(row, first, print.Span(now.Sub(h.Registered)))
	}
	row = append(row, print.OrDash(h.Error))
	for i := range row {
		// Hosts write these texts: no terminal must obey them.
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
