package manpage

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestWrite(t *testing.T) {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "prog", Short: "A program", Long: "First line.\n.not a macro\nback\\slash", Run: run}
	root.PersistentFlags().StringP("output", "o", "text", "`format` of data")
	child := &cobra.Command{Use: "sub FILE", Short: "Do it", Example: "  prog sub a-b", Run: run}
	child.Flags().Bool("dry-run", false, "change nothing")
	child.Flags().Bool("secret", false, "")
	_ = child.Flags().MarkHidden("secret")
	root.AddCommand(child, &cobra.Command{Use: "hidden", Hidden: true, Run: run})
	dir := t.TempDir()
	if err := Write(root, dir, "v0.1.0", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("got %v: %v", files, err)
	}
	for name, want := range map[string]string{
		"prog.1": `.TH "PROG" 1 "1970-01-01" "penstock v0.1.0" "Penstock"
.SH NAME
prog \- A program
.SH SYNOPSIS
\fBprog\fP \fICOMMAND\fP [\fIOPTIONS\fP]
.SH DESCRIPTION
.nf
First line.
\&.not a macro
back\eslash
.fi
.SH COMMANDS
.TP
\fBprog\-sub\fP(1)
Do it
.SH OPTIONS
.TP
\fB\-o\fP, \fB\-\-output\fP \fIformat\fP
format of data (default text)
`,
		"prog-sub.1": `.TH "PROG-SUB" 1 "1970-01-01" "penstock v0.1.0" "Penstock"
.SH NAME
prog\-sub \- Do it
.SH SYNOPSIS
\fBprog sub\fP FILE [\fIOPTIONS\fP]
.SH OPTIONS
.TP
\fB\-\-dry\-run\fP
change nothing
.SH OPTIONS OF ALL COMMANDS
.TP
\fB\-o\fP, \fB\-\-output\fP \fIformat\fP
format of data (default text)
.SH EXAMPLES
.nf
  prog sub a\-b
.fi
.SH SEE ALSO
\fBprog\fP(1)
`,
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}
