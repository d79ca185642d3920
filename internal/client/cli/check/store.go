package check

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/certplane/certplane/internal/client/cli/exit"
)

// fillsUp is the percentage of used space from which a store is reported.
const fillsUp = 80

// storeMetric is a line of the store's metrics.
var storeMetric = regexp.MustCompile(`^certplane_store_(in_use_bytes|quota_bytes|refusing|disk_free_bytes|tenant_bytes)(?:\{class="([^"]*)",tenant="([^"]*)"\})? (\S+)$`)

// store checks the space used in the store of "certplane serve", from its metrics.
func store(ctx context.Context, c *checker) []Check {
	if !c.servesCertplane {
		return nil
	}
	got, err := c.get(ctx, "/metrics")
	switch {
	case err != nil:
		return []Check{failure(exit.Advise("reading the space used in the store", err))}
	case got.status != http.StatusOK:
		return []Check{{Result: NotChecked, Text: "you may not get /metrics, which contain the space used in the store"}}
	}
	values := map[string]float64{}
	largest, most := "", 0.0
	for lines := bufio.NewScanner(strings.NewReader(got.body)); lines.Scan(); {
		found := storeMetric.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		value, _ := strconv.ParseFloat(found[4], 64)
		values[found[1]] = value
		if found[1] == "tenant_bytes" && value > most {
			largest, most = strings.TrimSpace(found[2]+" "+found[3]), value
		}
	}
	checks := storeSpace(values["in_use_bytes"], values["quota_bytes"], values["refusing"] == 1, largest)
	if left, known := values["disk_free_bytes"]; known { // an external etcd does not report it
		checks = append(checks, diskSpace(uint64(left), "the disk of its data folder"))
	}
	return checks
}

// diskSpace checks the space left on the disk of a server's data folder.
func diskSpace(left uint64, disk string) Check {
	check := Check{Result: OK, Text: fmt.Sprintf("%s has %.1f GiB left", disk, float64(left)/(1<<30))}
	switch {
	case left < spaceFailed:
		check.Result = Failed
	case left < spaceWarning:
		check.Result = Warning
	}
	return check.advised("A server without space stops. Make room, or move the folder to a larger file system.")
}

func storeSpace(inUse, quota float64, refuses bool, largest string) []Check {
	if quota == 0 {
		return nil // the server has not measured it yet
	}
	const mib = 1 << 20
	of := fmt.Sprintf("%.0f of %.0f MiB are in use", inUse/mib, quota/mib)
	if largest != "" {
		of += "; the most by " + largest
	}
	next := []string{"Delete objects that are not needed, or raise etcd.quotaMiB: see docs/operate.md."}
	switch {
	case refuses || inUse >= quota:
		return []Check{{Result: Failed, Text: "the store is full and refuses most writes: " + of, Next: next}}
	case inUse*100 >= quota*fillsUp:
		return []Check{{Result: Warning, Text: "the store is filling up: " + of, Next: next}}
	}
	return ok("the store has space left: %s", strings.Split(of, ";")[0])
}
