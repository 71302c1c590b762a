"""The pages that are made for the site: from the program's help and from the headers."""

from __future__ import annotations

import unittest
import xml.etree.ElementTree as ET

from documentation.commands import ask, command_pages, option_tables, sub_commands
from documentation.cpp_api import code, declarations_text
from documentation.headers import prepared


class CommandPagesTest(unittest.TestCase):
    def test_every_sub_command_has_a_page_and_a_line_in_the_index(self) -> None:
        pages = command_pages()
        names = sub_commands(ask("--help"))
        self.assertGreater(len(names), 10)
        self.assertEqual(set(pages), {*names, "index"})
        for name in names:
            self.assertIn(f"[{name}]({name}.md)", pages["index"])
            for below in sub_commands(ask(name, "--help")):
                self.assertIn(f"camber {name} {below}\n", pages[name])

    def test_every_option_of_train_stands_in_one_table(self) -> None:
        table = ask("train", "--print-options")
        rows = table.splitlines()[2:]
        self.assertGreater(len(rows), 100)
        made = option_tables(table, 3)
        self.assertEqual(sum(line.startswith("| `") for line in made.splitlines()), len(rows))
        self.assertIn("### `[detector.bias.scale]`", made)
        self.assertIn("| `max` | `5.0` | upper bound | number |", made)

    def test_a_choice_is_a_list_and_a_long_default_stands_in_the_meaning(self) -> None:
        head = "| option | type | default | allowed | meaning |\n|---|---|---|---|---|\n"
        made = option_tables(head + f"| `a.b` | x\\|y | `{'v' * 40}` |  | what it is |\n", 2)
        self.assertIn(f"| `b` |  | what it is; default `{'v' * 40}` | x, y |\n", made)


class CppPagesTest(unittest.TestCase):
    def test_code_has_no_spaces_that_doxygen_added(self) -> None:
        self.assertEqual(code("const std::optional< at::Tensor > &a"), "const std::optional<at::Tensor>& a")
        self.assertEqual(code("f(const A &, std::vector< B * > c)"), "f(const A&, std::vector<B*> c)")

    def test_a_function_is_shown_with_what_is_said_of_it(self) -> None:
        member = ET.fromstring(
            "<memberdef kind='function' static='yes'><type>int</type><name>add</name><argsstring>(int a)</argsstring>"
            "<detaileddescription><para>Adds a_b, <computeroutput>x</computeroutput>:</para><para><programlisting>"
            "<codeline><highlight><sp/><sp/>a<sp/>+<sp/>b</highlight></codeline></programlisting></para>"
            "</detaileddescription></memberdef>"
        )
        self.assertEqual(
            declarations_text([member]),
            "```cpp\nstatic int add(int a);\n```\n\nAdds a\\_b, `x`:\n\n```cpp\na + b\n```\n\n",
        )


class HeadersTest(unittest.TestCase):
    def test_indented_lines_of_a_comment_are_code(self) -> None:
        header = "/// Adds.\n///\n///   a + b\n///\n/// Done.\nint add(int a, int b);\n"
        self.assertIn("/// @code{.unparsed}\n///   a + b\n/// @endcode\n", prepared(header))

    def test_lists_stay_lists(self) -> None:
        header = "/// - one\n///   and more\n/// - two\nint a;\n"
        self.assertEqual(prepared(header), header)

    def test_angle_brackets_are_no_html(self) -> None:
        self.assertEqual(prepared("/// Reads <root>/x and `<kept>`.\n"), "/// Reads \\<root>/x and `<kept>`.\n")
        self.assertEqual(prepared("int a;  ///< of <name>\n"), "int a;  ///< of \\<name>\n")


if __name__ == "__main__":
    unittest.main()
