package dnsquery

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
)

// maxHostsFile is how much of a file such as /etc/hosts is read, in bytes.
const maxHostsFile = 1 << 20

// StaticAddresses returns the addresses of a name in a file such as /etc/hosts, in its
// order. A file that does not exist has none.
func StaticAddresses(file, name string) ([]netip.Addr, error) {
	f, err := os.Open(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the names of this host: %w", err)
	}
	defer f.Close()
	var found []netip.Addr
	lines := bufio.NewScanner(io.LimitReader(f, maxHostsFile))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		address, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, one := range fields[1:] {
			if strings.EqualFold(strings.TrimSuffix(one, "."), strings.TrimSuffix(name, ".")) {
				found = append(found, address.WithZone(""))
				break
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the names of this host: %w", err)
	}
	return found, nil
}
