package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/states"
	"lockstep/cmd/lockstep/internal/term"
)

func newState(io term.IO, out *term.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Look after a state: what it contains, whether it is whole, backups",
		Long: `Look after the state of a Source, a hub or a mirror: what its databases contain,
whether they are whole, backups while processes use them, and copies to another engine.

STATE is a state directory (--state of serve, publish or hub), the directory of a mirror,
or the URL of a PostgreSQL database, as postgres://user@host/database. The password can be
in the file .pgpass, or in the environment (PGPASSWORD).`,
		SuggestionsMinimumDistance: 2,
		Example: `  lockstep state info /var/lib/lockstep
  lockstep state check mirror
  lockstep state backup /var/lib/lockstep backup.tar.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return term.Usage(errors.New("state: which of its commands is missing"), "lockstep state --help lists them")
		},
	}
	cmd.AddCommand(newStateInfo(io, out), newStateCheck(io, out), newStateBackup(io, out), newStateRestore(io, out), newStateCopy(io, out), newStateMigrate(io, out))
	return cmd
}

func newStateInfo(io term.IO, out *term.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "info STATE [flags]",
		Short: "Show what the databases of a state contain",
		Long: `Show what the databases of STATE contain: engine, size, and how many resources,
changes, versions, messages and so on. Processes may use it meanwhile. All rows are
counted, which takes a second or so for 10 million.`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := states.Look(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printResult(io, out, info, info.Print)
		},
	}
}

func newStateCheck(io term.IO, out *term.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "check STATE [flags]",
		Short: "Read all of a state and report what is damaged",
		Long: `Read all databases of STATE and report what is damaged: pages of a file, rows that
cannot be read or do not fit together, and stored contents that do not have their hash.
Processes may use it meanwhile: the state at the beginning is what is checked.

Exit code 3 if something is damaged.`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := states.Check(cmd.Context(), args[0])
			if c == nil {
				return err
			}
			return errors.Join(printResult(io, out, c, c.Print), err)
		},
	}
}

func newStateBackup(io term.IO, out *term.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "backup STATE FILE [flags]",
		Short: "Write a state to a file, while processes use it",
		Long: `Write STATE to FILE, which must not exist: a tar archive, compressed with gzip, that
only its owner can read. It has the databases, keys, tokens and documents of the state;
of a mirror it has .lockstep, and none of the mirrored files.

Processes may use the state meanwhile. Each database is copied as it is at one instant.`,
		Example: `  lockstep state backup /var/lib/lockstep backup.tar.gz
  lockstep state backup postgres://hub@db.example.org/hub hub.tar.gz`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := states.Backup(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return printResult(io, out, &r, func(io term.IO) {
				io.Printf("%s: %s, %s, %s\n", r.File, term.Count(r.Databases, "database"), term.Count(r.Files, "file"), term.Size(r.Bytes))
			})
		},
	}
}

func newStateRestore(io term.IO, out *term.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE STATE [flags]",
		Short: "Restore a state from the file of a backup",
		Long: `Restore a state from FILE, which lockstep state backup has written, to STATE: a
directory that does not exist or is empty, the directory of a mirror that has no
.lockstep, or an empty PostgreSQL database. Nothing is replaced. The databases are
checked before anything appears in STATE.

What was published after the backup was made is not in the state. Therefore a Source
restarts the history of its changes with the next publication, and Destinations compare
everything once. A mirror compares everything with its next run.`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := states.Restore(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return printResult(io, out, &r, func(io term.IO) { states.PrintRestored(io, &r, args[1]) })
		},
	}
}

func newStateCopy(io term.IO, out *term.Options) *cobra.Command {
	var resume bool
	cmd := &cobra.Command{
		Use:   "copy FROM TO [flags]",
		Short: "Copy a database to another engine, and compare both",
		Long: `Copy the database FROM to TO, each a SQLite file or the URL of a PostgreSQL database;
FROM can also be a directory that has one database. TO must be empty. Afterwards both are
compared row by row. Stop the processes that use them first.

The state of a hub can be moved to PostgreSQL in this way: give the hub its key with
--key-file, since the key is not in the database.`,
		Example: `  lockstep state copy /var/lib/lockstep/hub.db postgres://hub@db.example.org/hub`,
		Args:    arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var mu sync.Mutex // guards now
			now := "opening the databases"
			stop := term.ShowProgress(io, out.Quiet, func() string {
				mu.Lock()
				defer mu.Unlock()
				return now
			})
			c, err := states.Copy(cmd.Context(), args[0], args[1], resume, func(table string, rows int64) {
				mu.Lock()
				defer mu.Unlock()
				now = fmt.Sprintf("%s: %s", table, term.Count(rows, "row"))
			})
			stop()
			if err != nil {
				return err
			}
			return printResult(io, out, &c, func(io term.IO) {
				io.Printf("%s has all %s of %s\n", c.To, term.Count(c.Rows, "row"), c.From)
			})
		},
	}
	cmd.Flags().BoolVar(&resume, "continue", false, "TO is a copy of FROM that was interrupted: write what is missing or differs, and remove what FROM does not have")
	return cmd
}

func newStateMigrate(io term.IO, out *term.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate STATE [flags]",
		Short: "Bring the tables of a state up to date",
		Long: `Bring the tables of STATE up to date after an upgrade. SQLite files need that only to be
prepared ahead: processes migrate them when they open them. A PostgreSQL database, which
processes of several versions may share, is migrated only by this command; stop the
processes of the earlier version first, and make a backup.`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := states.Migrate(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printResult(io, out, m, m.Print)
		},
	}
}

// printResult prints the result of a command: as JSON, as text, or not at all.
func printResult(io term.IO, out *term.Options, result any, text func(term.IO)) error {
	switch {
	case out.JSON:
		return io.PrintJSON(result)
	case !out.Quiet:
		text(io)
	}
	return nil
}
