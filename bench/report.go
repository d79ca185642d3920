package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// results are the measurements of a run, in the form in which they are written.
type results struct {
	Machine machine        `json:"machine"`
	Systems []systemResult `json:"systems"`
	// Pods are rounds of PodCertificateRequests, of certplane alone.
	Pods []loadResult `json:"pods,omitempty"`
	// Certificates are rounds of Certificates of cert-manager.io. Latency is
	// until they are Ready.
	Certificates []loadResult    `json:"certificates,omitempty"`
	Memory       *memoryResult   `json:"memory,omitempty"`
	Starts       []startsResult  `json:"starts,omitempty"`
	Agent        []agentResult   `json:"agent,omitempty"`
	ACME         []acmeResult    `json:"acme,omitempty"`
	Floods       []floodResult   `json:"floods,omitempty"`
	Signing      []signingResult `json:"signing,omitempty"`
	// Secrets is what Secrets that have nothing to do with certificates cost.
	Secrets *secretsResult `json:"secrets,omitempty"`
	// Inventory is what records of issued certificates cost.
	Inventory *inventoryResult `json:"inventory,omitempty"`
	// Revocation is what revocation takes.
	Revocation *revocationResult `json:"revocation,omitempty"`
	// Console is how fast its pages are.
	Console *consoleResult `json:"console,omitempty"`
	// Policies is what policies cost.
	Policies *policiesResult `json:"policies,omitempty"`
	// Trust is what targets of Bundles and TrustBundles cost.
	Trust []trustResult `json:"trust,omitempty"`
	// Missing is the reason why Kubernetes was not measured.
	Missing string `json:"missing,omitempty"`
	Goals   []goal `json:"goals,omitempty"`
	// Before are the measurements of an older certplane, and Compared the ratios to them.
	Before   *results     `json:"before,omitempty"`
	Compared []comparison `json:"compared,omitempty"`
	// Rounds are the rounds of a guard, which has only these and Compared.
	Rounds []*results `json:"rounds,omitempty"`
}

type machine struct {
	CPUs     int    `json:"cpus"`
	Platform string `json:"platform"`
	Go       string `json:"go"`
}

// systemResult is the result of one server, whatever processes it is made of.
type systemResult struct {
	Name         string  `json:"name"`
	ReadySeconds float64 `json:"readySeconds"`
	// MemoryIdleMB is resident memory before any load; AnonymousIdleMB is the part of it
	// that does not belong to files.
	MemoryIdleMB    float64       `json:"memoryIdleMB"`
	AnonymousIdleMB float64       `json:"anonymousIdleMB"`
	Rounds          []roundResult `json:"rounds"`
}

type roundResult struct {
	Requesters   int `json:"requesters"`
	Certificates int `json:"certificates"`
	// InAnswer are certificates that the answer to the creation had.
	InAnswer int64 `json:"inAnswer"`
	// Errors are requests that failed or got no certificate.
	Errors int `json:"errors"`
	// PutOff counts answers of 429 after which the client came again.
	PutOff int64 `json:"putOff"`
	// Resumed counts how often the server ended the watch and the client went
	// on.
	Resumed int64   `json:"resumed"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"certificatesPerSecond"`
	// Latency is from the first request to the certificate.
	P50Milliseconds float64 `json:"p50Milliseconds"`
	P99Milliseconds float64 `json:"p99Milliseconds"`
	cost
	// SettledMB is resident memory after the server has idled again; SettledAnonymousMB is
	// the part of it that does not belong to files.
	SettledMB          float64 `json:"settledMB"`
	SettledAnonymousMB float64 `json:"settledAnonymousMB"`
	// Ratios are to Kubernetes in the same round, if it was measured.
	Ratios *ratios `json:"ratios,omitempty"`
}

type ratios struct {
	Rate float64 `json:"rate"`
	P99  float64 `json:"p99"`
	CPU  float64 `json:"cpu"`
	// Memory is at the end of the round, MemorySettled after a pause.
	Memory        float64 `json:"memory"`
	MemorySettled float64 `json:"memorySettled"`
}

func newResults() *results {
	return &results{Machine: machine{CPUs: runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}}
}

// compare adds the ratios and goals.
func (r *results) compare() {
	if theirs := r.system(kubernetesSystem); theirs != nil {
		for i := range r.Systems {
			if ours := &r.Systems[i]; ours.Name != theirs.Name {
				ours.compare(theirs)
			}
		}
	}
	r.Goals = goalsOf(r)
	if r.Before == nil {
		return
	}
	for _, before := range goalsOf(r.Before) {
		for i := range r.Goals {
			if r.Goals[i].What == before.What && r.Goals[i].Unit == before.Unit {
				r.Goals[i].Before = &before.Is
			}
		}
	}
}

// system returns the results of a system, or nil.
func (r *results) system(name string) *systemResult {
	for i := range r.Systems {
		if r.Systems[i].Name == name {
			return &r.Systems[i]
		}
	}
	return nil
}

func (s *systemResult) compare(theirs *systemResult) {
	for i := range s.Rounds {
		a, b := &s.Rounds[i], theirs.Rounds[i]
		a.Ratios = &ratios{
			Rate:          ratio(a.Rate, b.Rate),
			P99:           ratio(a.P99Milliseconds, b.P99Milliseconds),
			CPU:           ratio(a.ServerCPUMilliseconds, b.ServerCPUMilliseconds),
			Memory:        ratio(a.MemoryMB, b.MemoryMB),
			MemorySettled: ratio(a.SettledMB, b.SettledMB),
		}
	}
}

// write prints a table, and writes JSON to a file if one is named. The file
// "-" is standard output, without the table.
func (r *results) write(file string) error {
	if file == "-" {
		return r.writeJSON(os.Stdout)
	}
	if err := r.writeTable(os.Stdout); err != nil || file == "" {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	return r.writeJSON(out)
}

func (r *results) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r *results) writeTable(out io.Writer) error {
	fmt.Fprintf(out, "machine: %d CPUs, %s, %s\n", r.Machine.CPUs, r.Machine.Platform, r.Machine.Go)
	if r.Missing != "" {
		fmt.Fprintf(out, "Kubernetes was not measured: %s\n", r.Missing)
	}
	r.Memory.write(out)
	writeStarts(out, r.Starts)
	writeAgents(out, r.Agent)
	writeSigning(out, r.Signing)
	return errors.Join(
		r.writeSystems(out), writeLoads(out, "pods", r.Pods), writeLoads(out, "Certificates", r.Certificates), writeACME(out, r.ACME), writeFloods(out, r.Floods),
		r.Secrets.write(out), r.Console.write(out), r.Inventory.write(out), r.Revocation.write(out), r.Policies.write(out), writeTrust(out, r.Trust), writeGoals(out, r.Goals), writeComparisons(out, r.Compared),
	)
}

func (r *secretsResult) write(out io.Writer) error {
	if r == nil {
		return nil
	}
	fmt.Fprintf(out, "\n%d Secrets of %d bytes, %d errors; memory at rest:\n", r.Secrets, r.Bytes, r.Errors)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	writeRest(table, atTime{"without", r.Before}, atTime{"with", r.After}, atTime{"restarted", r.Restarted})
	return table.Flush()
}

// atTime is memory at rest at some time.
type atTime struct {
	when string
	restMemory
}

func writeRest(table io.Writer, rows ...atTime) {
	fmt.Fprintln(table, "\tresident MB\tanonymous MB\tof files MB\t")
	for _, row := range rows {
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t\n", row.when, row.ResidentMB, row.AnonymousMB, row.FileMB)
	}
}

func writeLoads(out io.Writer, what string, rounds []loadResult) error {
	if len(rounds) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, what+"\trequests\tissued\tin answer\terrors\tlost\tchanged\tmedian s\tlast s\trate /s\tp50 ms\tp99 ms\t"+costColumns)
	for _, p := range rounds {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f\t%s\n",
			strings.TrimSpace(p.System+" "+p.Name), p.Requests, p.Issued, p.InAnswer, p.Errors, p.Lost, p.Changed, p.MedianSeconds, p.LastSeconds, p.Rate,
			p.P50Milliseconds, p.P99Milliseconds, p.columns())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, p := range rounds {
		for _, name := range slices.Sorted(maps.Keys(p.ProcessCPUMilliseconds)) {
			fmt.Fprintf(out, "%s %s: %.2f ms of the CPU belong to %s.\n", p.System, p.Name, p.ProcessCPUMilliseconds[name], name)
		}
	}
	return nil
}

func (r *results) writeSystems(out io.Writer) error {
	if len(r.Systems) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tready s\tidle MB\trequesters\tcertificates\tin answer\terrors\tput off\trate /s\tp50 ms\tp99 ms\t"+costColumns+"peak MB\tsettled MB\t")
	for _, s := range r.Systems {
		for _, round := range s.Rounds {
			fmt.Fprintf(table, "%s\t%.1f\t%.0f\t%d\t%d\t%d\t%d\t%d\t%.0f\t%.1f\t%.0f\t%s%.0f\t%.0f\t\n",
				s.Name, s.ReadySeconds, s.MemoryIdleMB, round.Requesters, round.Certificates, round.InAnswer, round.Errors, round.PutOff, round.Rate,
				round.P50Milliseconds, round.P99Milliseconds, round.columns(), round.PeakMB, round.SettledMB)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nRates count all calls from creation to certificate; CPU is user and system time for each certificate; MB are resident.")
	if r.system(kubernetesSystem) == nil {
		return nil
	}
	fmt.Fprintln(table, "to Kubernetes\trequesters\trate\tp99\tCPU\tmemory\tsettled\t")
	for _, s := range r.Systems {
		for _, round := range s.Rounds {
			if q := round.Ratios; q != nil {
				fmt.Fprintf(table, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", s.Name, round.Requesters, q.Rate, q.P99, q.CPU, q.Memory, q.MemorySettled)
			}
		}
	}
	return table.Flush()
}
