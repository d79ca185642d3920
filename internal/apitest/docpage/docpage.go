// Package docpage reads pages of the documentation for tests: the commands that they
// show, and the files.
package docpage

import (
	"cmp"
	"os/exec"
	"regexp"
	"strings"
)

// Command is a command on a page, and its output.
type Command struct{ Line, Output string }

// ConsoleBlock is a console block of a page.
type ConsoleBlock struct {
	Commands []Command
	// NotRun, if not empty, is the reason why the test of the page leaves it out: that
	// of "<!-- not run: REASON -->" in the line above it, or of
	// "<!-- page not run: REASON -->" anywhere on the page.
	NotRun string
	// Title is the first line of the block.
	Title string
	// Before is the text of the page between the block before and this one.
	Before string
}

var (
	consolePattern    = regexp.MustCompile("(?ms)^(?:<!-- not run: ([^\n]*) -->\n)?```console\n(.*?)^```$")
	pageNotRunPattern = regexp.MustCompile(`(?m)^<!-- page not run: (.*) -->$`)
)

// ConsoleBlocks returns the console blocks of a page.
func ConsoleBlocks(text string) []ConsoleBlock {
	var page string
	if found := pageNotRunPattern.FindStringSubmatch(text); found != nil {
		page = found[1]
	}
	var all []ConsoleBlock
	for _, found := range consolePattern.FindAllStringSubmatch(text, -1) {
		title, _, _ := strings.Cut(found[2], "\n")
		before, after, _ := strings.Cut(text, found[0])
		text = after
		all = append(all, ConsoleBlock{Commands: commands(found[2]), NotRun: cmp.Or(found[1], page), Title: title, Before: before})
	}
	return all
}

// Commands returns the commands in the console blocks of a page, or of a part of it.
func Commands(text string) []Command {
	var all []Command
	for _, s := range ConsoleBlocks(text) {
		all = append(all, s.Commands...)
	}
	return all
}

func commands(block string) []Command {
	var all []Command
	inCommand := false
	for line := range strings.Lines(block) {
		first, begins := strings.CutPrefix(line, "$ ")
		switch last := len(all) - 1; {
		case begins && !inCommand:
			all = append(all, Command{Line: first})
			inCommand = isUnfinished(first)
		case last < 0: // for a root's prompt, "# ", nothing is run
		case inCommand:
			all[last].Line += line
			inCommand = isUnfinished(all[last].Line)
		default:
			all[last].Output += line
		}
	}
	return all
}

var (
	hereDocument = regexp.MustCompile(`<<'?END'?\n`)
	// unfinished matches messages of shells about incomplete input.
	unfinished = regexp.MustCompile("end of file|[Uu]nterminated|EOF")
)

// isUnfinished reports whether a shell would read another line.
func isUnfinished(line string) bool {
	if strings.HasSuffix(line, "\\\n") || hereDocument.MatchString(line) && !strings.HasSuffix(line, "\nEND\n") {
		return true
	}
	out, err := exec.Command("sh", "-n", "-c", line).CombinedOutput()
	return err != nil && unfinished.Match(out)
}

// varying is what differs from run to run: times, ages, and the width of columns.
var varying = []struct{ shown, printed *regexp.Regexp }{
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`), regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)},
	{regexp.MustCompile(`\b(\d+[dhms]){1,2}\b`), regexp.MustCompile(`(\d+[dhms]){1,3}`)},
	{regexp.MustCompile(` {2,}`), regexp.MustCompile(`\s{2,}`)},
}

// Pattern matches the output that a page shows: the lines in it, with any text for
// "...", any time for a time, any age for an age, and columns of any width.
func (c Command) Pattern() *regexp.Regexp {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(c.Output), `\.\.\.`, `.*`)
	for _, v := range varying {
		quoted = v.shown.ReplaceAllLiteralString(quoted, v.printed.String())
	}
	return regexp.MustCompile(`(?s)^` + quoted + `$`)
}

// Blocks returns the code blocks of a language, such as yaml.
func Blocks(text, language string) []string {
	var all []string
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, block[1])
	}
	return all
}

// Section is the part of a page below a heading.
type Section struct{ Heading, Text string }

// Sections returns the parts of a page below its headings of the second level.
func Sections(text string) []Section {
	var all []Section
	for _, part := range strings.Split("\n"+text, "\n## ")[1:] {
		heading, rest, _ := strings.Cut(part, "\n")
		all = append(all, Section{Heading: heading, Text: rest})
	}
	return all
}
